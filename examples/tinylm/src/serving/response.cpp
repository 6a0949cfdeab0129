#include "examples/tinylm/src/serving/response.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "examples/tinylm/src/tokens.hpp"

namespace tinylm {
namespace {

using nlohmann::json;

json finish_name(Finish finish) {
  if (finish == Finish::none) return nullptr;
  return finish == Finish::stop ? "stop" : "length";
}

std::vector<std::int32_t> ids_of(std::span<const TokenResult> tokens) {
  std::vector<std::int32_t> ids;
  for (const TokenResult& token : tokens) ids.push_back(token.token);
  return ids;
}

// The format of the completions API. Offsets count characters, that is bytes that begin a UTF-8 sequence.
json logprobs_json(std::span<const TokenResult> tokens, bool with_top, std::size_t& offset) {
  json out = {{"tokens", json::array()},
              {"token_logprobs", json::array()},
              {"top_logprobs", json::array()},
              {"text_offset", json::array()}};
  for (const TokenResult& token : tokens) {
    out["tokens"].push_back(token_string(token.token));
    out["token_logprobs"].push_back(token.known ? json(token.logprob) : json(nullptr));
    json top = json::object();
    for (const auto& [id, logprob] : token.top) top[token_string(id)] = logprob;
    out["top_logprobs"].push_back(token.known ? std::move(top) : json(nullptr));
    out["text_offset"].push_back(offset);
    if (token.token != kBos && (token.token & 0xC0) != 0x80) ++offset;
  }
  if (!with_top) out["top_logprobs"] = nullptr;
  return out;
}

json choice_json(const CompletionRequest& request, std::span<const TokenResult> tokens,
                 const std::string& text, Finish finish, std::size_t& offset) {
  json choice = {{"index", 0}, {"text", text}, {"finish_reason", finish_name(finish)}, {"logprobs", nullptr}};
  if (request.logprobs) choice["logprobs"] = logprobs_json(tokens, *request.logprobs > 0, offset);
  choice["token_ids"] = ids_of(tokens);
  return choice;
}

json frame(const ResponseIdentity& identity, json choices) {
  return {{"id", identity.id},
          {"object", "text_completion"},
          {"created", identity.created},
          {"model", identity.model},
          {"choices", std::move(choices)},
          {"system_fingerprint", identity.fingerprint}};
}

json usage_json(const CompletionRequest& request, std::size_t completion) {
  return {{"prompt_tokens", request.prompt.size()},
          {"completion_tokens", completion},
          {"total_tokens", request.prompt.size() + completion}};
}

std::vector<TokenResult> echoed_prompt(const Generation& generation) {
  if (!generation.prompt_results().empty()) return generation.prompt_results();
  std::vector<TokenResult> tokens;
  for (const std::int32_t token : generation.request().prompt) tokens.push_back({token, 0, false, {}});
  return tokens;
}

}  // namespace

std::size_t tokens_before_stop(std::span<const TokenResult> tokens, const std::vector<std::string>& stops) {
  const std::string bytes = bytes_of(ids_of(tokens));
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stops) cut = std::min(cut, bytes.find(stop));
  return cut == std::string::npos ? tokens.size() : cut;
}

std::size_t tokens_safe_to_send(std::span<const TokenResult> tokens, const std::vector<std::string>& stops) {
  const std::string bytes = bytes_of(ids_of(tokens));
  std::size_t held = 0;
  for (const std::string& stop : stops)
    for (std::size_t n = std::min(stop.size(), bytes.size()); n > held; --n)
      if (bytes.ends_with(stop.substr(0, n))) held = n;
  return bytes.size() - held;
}

std::string completion_body(const ResponseIdentity& identity, const Generation& generation,
                            std::span<const TokenResult> tokens, Finish finish) {
  const CompletionRequest& request = generation.request();
  const auto kept = tokens.first(tokens_before_stop(tokens, request.stop));
  std::vector<TokenResult> all;
  if (request.echo) all = echoed_prompt(generation);
  all.insert(all.end(), kept.begin(), kept.end());
  std::size_t offset = 0;
  json choice = choice_json(request, all, to_valid_utf8(bytes_of(ids_of(all))), finish, offset);
  choice["prompt_token_ids"] = request.prompt;
  json body = frame(identity, json::array({std::move(choice)}));
  body["usage"] = usage_json(request, kept.size());
  return body.dump();
}

ChunkWriter::ChunkWriter(ResponseIdentity identity, const Generation& generation)
    : identity_(std::move(identity)), generation_(generation) {}

std::string ChunkWriter::chunk(std::span<const TokenResult> tokens, const std::string& text, Finish finish) {
  json choice = choice_json(generation_.request(), tokens, text, finish, offset_);
  if (sent_tokens_ == 0) choice["prompt_token_ids"] = generation_.request().prompt;
  return "data: " + frame(identity_, json::array({std::move(choice)})).dump() + "\n\n";
}

std::string ChunkWriter::advance(std::span<const TokenResult> all, Finish finish) {
  const CompletionRequest& request = generation_.request();
  const bool last = finish != Finish::none;
  const std::size_t until =
      last ? tokens_before_stop(all, request.stop) : tokens_safe_to_send(all, request.stop);
  std::vector<TokenResult> fresh;
  if (request.echo && !echoed_) fresh = echoed_prompt(generation_);
  echoed_ = true;
  if (until > sent_tokens_)
    fresh.insert(fresh.end(), all.begin() + static_cast<std::ptrdiff_t>(sent_tokens_),
                 all.begin() + static_cast<std::ptrdiff_t>(until));
  if (fresh.empty() && !last) return "";
  bytes_ += bytes_of(ids_of(fresh));
  const std::size_t ready = last ? bytes_.size() : complete_prefix(bytes_);
  std::string out = chunk(fresh, to_valid_utf8(std::string_view(bytes_).substr(0, ready)), finish);
  bytes_.erase(0, ready);
  sent_tokens_ = std::max(sent_tokens_, until);
  if (!last) return out;
  if (request.stream_usage) {
    json usage = frame(identity_, json::array());
    usage["usage"] = usage_json(request, sent_tokens_);
    out += "data: " + usage.dump() + "\n\n";
  }
  return out + "data: [DONE]\n\n";
}

std::string error_body(const ApiError& error) {
  const json body = {
      {"error",
       {{"message", error.message}, {"type", error.type}, {"code", error.code}, {"param", nullptr}}}};
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace tinylm
