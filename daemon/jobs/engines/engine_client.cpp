#include "daemon/jobs/engines/engine_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace driftgate::jobs {

using nlohmann::json;
using schema::ErrorCode;

namespace {

constexpr std::array<std::string_view, 4> kScorings{"none", "echo", "prompt_logprobs", "generate"};
constexpr std::array<std::string_view, 4> kLogprobsBy{"none", "count", "top_logprobs", "n_probs"};

/// The place of a name in a list, 0 where it is unknown.
template <typename Enum>
Enum named(const std::array<std::string_view, 4>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? Enum{} : static_cast<Enum>(found - names.begin());
}

}  // namespace

schema::Result<net::HttpClient> engine_http(const EngineAddress& engine, const net::OutgoingPolicy& policy,
                                            bool keep_alive, std::chrono::milliseconds timeout) {
  auto url = TRY(net::parse_url(engine.url));
  TRY(net::check_outgoing(url, policy));
  auto key = TRY(base::read_key(engine.access));
  if (key && !net::is_listed(url, policy)) {
    return schema::fail(ErrorCode::forbidden,
                        fmt::format("a key is only sent to a host that the settings name: add '{}' to "
                                    "{}.allowed_hosts",
                                    url.host, policy.setting));
  }
  net::ClientOptions options;
  if (key) options.headers.push_back({std::move(key->name), std::move(key->value)});
  options.tls.ca = engine.access.ca_file;
  options.tls.ca_advice = "register the engine with --ca-file if it has a CA of its own";
  options.total_timeout = timeout;
  options.keep_alive = keep_alive;
  return net::HttpClient(url, net::with_policy(options, url, policy));
}

net::ClientRequest engine_get(const net::HttpClient& client, std::string_view path) {
  net::ClientRequest request;
  request.target = net::join_target(client.base().target, path);
  return request;
}

net::ClientRequest engine_post(const net::HttpClient& client, std::string_view path, const json& body) {
  auto request = engine_get(client, path);
  request.method = "POST";
  request.headers.push_back({"Content-Type", "application/json"});
  request.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return request;
}

std::string_view to_string(Scoring scoring) {
  return kScorings.at(static_cast<std::size_t>(scoring));
}

void to_json(json& value, Scoring scoring) {
  value = to_string(scoring);
}

void from_json(const json& value, Scoring& scoring) {
  scoring = named<Scoring>(kScorings, value.get<std::string>());
}

void to_json(json& value, LogprobsBy by) {
  value = kLogprobsBy.at(static_cast<std::size_t>(by));
}

void from_json(const json& value, LogprobsBy& by) {
  by = named<LogprobsBy>(kLogprobsBy, value.get<std::string>());
}

json logprobs_members(LogprobsBy by) {
  switch (by) {
    case LogprobsBy::count:
      return {{"logprobs", 1}};
    case LogprobsBy::top_logprobs:
      return {{"logprobs", true}, {"top_logprobs", 1}};
    case LogprobsBy::n_probs:
      return {{"n_probs", 1}};
    case LogprobsBy::none:
      break;
  }
  return json::object();
}

ScoringRequest scoring_request(Scoring scoring, const std::string& model, const json& prompt) {
  if (scoring == Scoring::generate) {
    return {"/generate",
            {{prompt.is_string() ? "text" : "input_ids", prompt},
             {"sampling_params", {{"max_new_tokens", 0}, {"temperature", 1}}},
             {"return_logprob", true},
             {"logprob_start_len", 0},
             {"return_text_in_logprobs", true}}};
  }
  json body{{"model", model}, {"prompt", prompt}, {"temperature", 1}};
  if (scoring == Scoring::prompt_logprobs) {
    body.update({{"max_tokens", 1}, {"prompt_logprobs", 0}, {"return_token_ids", true}});
  } else {
    body.update({{"max_tokens", 0}, {"echo", true}, {"logprobs", 1}});
  }
  return {"/v1/completions", std::move(body)};
}

schema::Result<EngineClient> EngineClient::connect(const EngineAddress& engine, std::string model,
                                                   Scoring scoring, const net::OutgoingPolicy& policy) {
  auto client = TRY(engine_http(engine, policy, true));
  return EngineClient(std::move(client), std::move(model), scoring);
}

schema::Result<ScoredText> EngineClient::score(std::string_view text) {
  return send(text);
}

schema::Result<ScoredText> EngineClient::score(const std::vector<std::int64_t>& ids) {
  auto scored = send(ids);
  if (scored && scored->tokens.size() != ids.size()) {
    return schema::fail(ErrorCode::invalid_document,
                        fmt::format("the engine {} scored {} tokens where {} were sent",
                                    client_.base().base(), scored->tokens.size(), ids.size()));
  }
  return scored;
}

schema::Result<ScoredText> EngineClient::send(const json& prompt) {
  const auto request = scoring_request(scoring_, model_, prompt);
  const auto answer = TRY(client_.send(engine_post(client_, request.path, request.body)));
  if (answer.status != 200) {
    return schema::fail(ErrorCode::unavailable,
                        fmt::format("the engine {} answered {} to a request for scores",
                                    client_.base().base(), answer.status));
  }
  return parse_logprobs(answer.body);
}

}  // namespace driftgate::jobs
