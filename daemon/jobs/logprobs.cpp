#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
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

const json* first_choice(const json& answer) {
  const json* choices = base::member(answer, "choices");
  return choices != nullptr && choices->is_array() && !choices->empty() ? &choices->front() : nullptr;
}

schema::Result<ScoredText> parse_logprobs(std::string_view completion_json) {
  const auto parsed = TRY(schema::parse_json(completion_json, kAnswerLimits, "the engine's answer"));
  const json* choice = first_choice(parsed);
  if (choice == nullptr) return bad_shape("it has no choices", "/choices");
  const json* logprobs = base::member(*choice, "logprobs");
  if (logprobs == nullptr || !logprobs->is_object())
    return bad_shape("the choice has no logprobs object", "/choices/0/logprobs");
  const json* tokens = base::member(*logprobs, "tokens");
  const json* values = base::member(*logprobs, "token_logprobs");
  if (tokens == nullptr || values == nullptr || !tokens->is_array() || !values->is_array() ||
      tokens->size() != values->size()) {
    return bad_shape("tokens and token_logprobs are not arrays of one length", "/choices/0/logprobs");
  }
  ScoredText scored;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    if (!(*tokens)[i].is_string())
      return bad_shape("a token is not a string", fmt::format("/choices/0/logprobs/tokens/{}", i));
    scored.tokens.push_back((*tokens)[i].get<std::string>());
    scored.logprobs.push_back(logprob_of((*values)[i]));
  }
  const json* offsets = base::member(*logprobs, "text_offset");
  if (offsets != nullptr && offsets->is_array() && offsets->size() == scored.tokens.size()) {
    for (const auto& offset : *offsets) {
      scored.text_offsets.push_back(offset.is_number_integer() ? offset.get<std::int64_t>() : -1);
    }
  }
  return scored;
}

}  // namespace driftgate::jobs
