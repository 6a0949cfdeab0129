#include "gpu/ingest/answer_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "gpu/capture/unknown_logprob.hpp"
#include "gpu/ingest/answer_shape.hpp"
#include "schema/failf.hpp"
#include "schema/json.hpp"

namespace driftgate::gpu::ingest {

using nlohmann::json;
using schema::ErrorCode;
using schema::Result;
using Tokens = std::vector<AnswerToken>;

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::unexpected<schema::Error> bad_shape(const std::string& what, const std::string& where) {
  return schema::fail(ErrorCode::invalid_document, "the engine's answer cannot be read: " + what, where);
}

/// The member with this name, or a null value.
const json& at(const json& object, const char* name) {
  static const json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

double logprob_of(const json& value) {
  const auto number = schema::number_from_json(value);
  return number && is_known_logprob(*number) ? *number : kUnknown;
}

std::optional<std::int64_t> integer_of(const json& value) {
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

/// `bytes` are exact where `token` shows a sign for bytes that are no character of their own.
std::string text_of(const json& token) {
  const json& bytes = at(token, "bytes");
  if (bytes.is_array() && !bytes.empty()) {
    std::string text;
    for (const json& byte : bytes) {
      const auto value = integer_of(byte);
      if (!value || *value < 0 || *value > 255) return {};
      text += static_cast<char>(*value);
    }
    return text;
  }
  const json& name = at(token, "token");
  return name.is_string() ? name.get<std::string>() : std::string();
}

Result<Tokens> of_objects(const json& list, const std::string& where) {
  if (!list.is_array()) return bad_shape("no list of tokens", where);
  Tokens tokens;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json& token = list[i];
    if (!token.is_object() || (!at(token, "token").is_string() && !at(token, "bytes").is_array()))
      return bad_shape("a token has neither 'token' nor 'bytes'", fmt::format("{}/{}", where, i));
    tokens.push_back({text_of(token), integer_of(at(token, "id")), logprob_of(at(token, "logprob")), {}});
  }
  return tokens;
}

Result<Tokens> of_lists(const json& logprobs) {
  const json &names = at(logprobs, "tokens"), &values = at(logprobs, "token_logprobs");
  if (!names.is_array() || !values.is_array() || names.size() != values.size())
    return bad_shape("tokens and token_logprobs are not arrays of one length", "/choices/0/logprobs");
  const json& offsets = at(logprobs, "text_offset");
  const bool has_offsets = offsets.is_array() && offsets.size() == names.size();
  Tokens tokens;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].is_string())
      return bad_shape("a token is not a string", fmt::format("/choices/0/logprobs/tokens/{}", i));
    tokens.push_back({names[i].get<std::string>(), {}, logprob_of(values[i]), {}});
    if (has_offsets) tokens.back().offset = integer_of(offsets[i]);
  }
  return tokens;
}

/// SGLang: [log-probability, id, text or null].
Result<void> add_triples(const json& list, const char* name, Tokens& tokens) {
  if (list.is_null()) return {};
  const std::string where = std::string("/meta_info/") + name;
  if (!list.is_array()) return bad_shape("no list of tokens", where);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json& triple = list[i];
    if (!triple.is_array() || triple.size() < 2)
      return bad_shape("a token is not [logprob, id, text]", fmt::format("{}/{}", where, i));
    const bool named = triple.size() > 2 && triple[2].is_string();
    tokens.push_back({named ? triple[2].get<std::string>() : std::string(),
                      integer_of(triple[1]),
                      logprob_of(triple[0]),
                      {}});
  }
  return {};
}

Result<Tokens> of_meta(const json& meta) {
  Tokens tokens;
  for (const char* name : {"input_token_logprobs", "output_token_logprobs"})
    TRY(add_triples(at(meta, name), name, tokens));
  return tokens;
}

/// vLLM: an object from ids to {logprob, decoded_token} for each token of the prompt; `prompt_token_ids` say
/// which of them is the prompt's.
Result<Tokens> of_prompt(const json& prompt, const json& ids, const std::string& where) {
  if (!prompt.is_array() || !ids.is_array() || ids.size() != prompt.size())
    return bad_shape("prompt_logprobs and prompt_token_ids are not arrays of one length", where);
  Tokens tokens;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const auto id = integer_of(ids[i]);
    if (!id) return bad_shape("an id is not an integer", fmt::format("{}/{}", where, i));
    const json& own = at(prompt[i], std::to_string(*id).c_str());
    const json& text = at(own, "decoded_token");
    tokens.push_back(
        {text.is_string() ? text.get<std::string>() : std::string(), id, logprob_of(at(own, "logprob")), {}});
  }
  return tokens;
}

Result<Tokens> of_prompt_answer(const json& answer) {
  const json& choices = at(answer, "choices");
  const bool outside = !at(answer, "prompt_logprobs").is_null();
  const json& holder = outside ? answer : choices.front();
  const json& own_ids = at(holder, "prompt_token_ids");
  const json& ids = own_ids.is_null() ? at(answer, "prompt_token_ids") : own_ids;
  return of_prompt(at(holder, "prompt_logprobs"), ids,
                   outside ? "/prompt_logprobs" : "/choices/0/prompt_logprobs");
}

}  // namespace

Result<Tokens> answer_tokens(const json& answer) {
  const auto shape = shape_of(answer);
  if (!shape) return bad_shape("it holds no log-probabilities; known are " + known_shapes(), "");
  switch (*shape) {
    case Format::sglang:
      return of_meta(at(answer, "meta_info"));
    case Format::llamacpp:
      return of_objects(at(answer, "completion_probabilities"), "/completion_probabilities");
    case Format::vllm:
      return of_prompt_answer(answer);
    case Format::chat:
      return of_objects(at(at(answer.at("choices").front(), "logprobs"), "content"),
                        "/choices/0/logprobs/content");
    case Format::openai:
      return of_lists(at(answer.at("choices").front(), "logprobs"));
    case Format::llamacpp_logits:
      break;
  }
  return bad_shape("its shape is not one of an answer", "");
}

void add_stated(const json& answer, StatedTokens& stated) {
  const auto told = integer_of(at(at(answer, "usage"), "completion_tokens"));
  const auto predicted = told ? told : integer_of(at(answer, "tokens_predicted"));
  if (predicted && *predicted >= 0) stated.count = static_cast<std::uint64_t>(*predicted);
  const json& stop = at(answer, "stop_type");
  stated.ended = stated.ended || stop == "eos" || stop == "word";
  const json& choices = at(answer, "choices");
  if (!choices.is_array()) return;
  stated.several = stated.several || choices.size() > 1;
  for (const json& choice : choices) {
    stated.ended = stated.ended || at(choice, "finish_reason") == "stop";
    stated.several = stated.several || integer_of(at(choice, "index")).value_or(0) > 0;
  }
}

bool lists_every_token(const Tokens& tokens, const StatedTokens& stated) {
  const auto beyond_ascii = [](const AnswerToken& token) {
    return std::ranges::any_of(token.text,
                               [](char c) { return (static_cast<unsigned char>(c) & 0x80) != 0; });
  };
  const auto has_id = [](const AnswerToken& token) { return token.id.has_value(); };
  if (!stated.count || stated.several) {
    return std::ranges::none_of(
        tokens, [&](const AnswerToken& token) { return has_id(token) && beyond_ascii(token); });
  }
  if (tokens.size() == *stated.count) return true;
  if (tokens.size() > *stated.count || !stated.ended) return false;
  const bool one_missing = *stated.count - tokens.size() == 1;
  return std::ranges::none_of(tokens, beyond_ascii) || (one_missing && std::ranges::none_of(tokens, has_id));
}

}  // namespace driftgate::gpu::ingest
