#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/jobs/engine_client.hpp"
#include "gpu/capture/unknown_logprob.hpp"
#include "schema/json.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr schema::JsonLimits kAnswerLimits{.bytes = 16u << 20, .depth = 32, .values = 2'000'000};

double logprob_of(const json& value) {
  if (!value.is_number()) return std::numeric_limits<double>::quiet_NaN();
  const auto number = value.get<double>();
  return gpu::is_known_logprob(number) ? number : std::numeric_limits<double>::quiet_NaN();
}

std::unexpected<schema::Error> bad_shape(std::string what, std::string where) {
  return schema::fail(ErrorCode::invalid_document,
                      "the engine's answer is not of the completions shape: " + std::move(what),
                      std::move(where));
}

}  // namespace

schema::Result<ScoredText> parse_logprobs(std::string_view completion_json) {
  auto parsed = TRY(schema::parse_json(completion_json, kAnswerLimits, "the engine's answer"));
  const auto choices = parsed.find("choices");
  if (!parsed.is_object() || choices == parsed.end() || !choices->is_array() || choices->empty()) {
    return bad_shape("it has no choices", "/choices");
  }
  const auto& choice = choices->front();
  const auto logprobs = choice.is_object() ? choice.find("logprobs") : choice.end();
  if (!choice.is_object() || logprobs == choice.end() || !logprobs->is_object()) {
    return bad_shape("the choice has no logprobs object", "/choices/0/logprobs");
  }
  const auto tokens = logprobs->find("tokens");
  const auto values = logprobs->find("token_logprobs");
  if (tokens == logprobs->end() || values == logprobs->end() || !tokens->is_array() || !values->is_array() ||
      tokens->size() != values->size()) {
    return bad_shape("tokens and token_logprobs are not arrays of one length", "/choices/0/logprobs");
  }
  ScoredText scored;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    if (!(*tokens)[i].is_string())
      return bad_shape("a token is no string", fmt::format("/choices/0/logprobs/tokens/{}", i));
    scored.tokens.push_back((*tokens)[i].get<std::string>());
    scored.logprobs.push_back(logprob_of((*values)[i]));
  }
  const auto offsets = logprobs->find("text_offset");
  if (offsets != logprobs->end() && offsets->is_array() && offsets->size() == scored.tokens.size()) {
    for (const auto& offset : *offsets) {
      scored.text_offsets.push_back(offset.is_number_integer() ? offset.get<std::int64_t>() : -1);
    }
  }
  return scored;
}

}  // namespace driftgate::jobs
