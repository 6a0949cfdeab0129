#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/base/json_members.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "gpu/ingest/answer_tokens.hpp"
#include "schema/json.hpp"

namespace driftgate::jobs {
namespace {

using nlohmann::json;

constexpr schema::JsonLimits kAnswerLimits{.bytes = 16u << 20, .depth = 32, .values = 2'000'000};

}  // namespace

const json* first_choice(const json& answer) {
  const json* choices = base::member(answer, "choices");
  return choices != nullptr && choices->is_array() && !choices->empty() ? &choices->front() : nullptr;
}

schema::Result<ScoredText> parse_logprobs(std::string_view answer_json) {
  const auto parsed = TRY(schema::parse_json(answer_json, kAnswerLimits, "the engine's answer"));
  auto tokens = TRY(gpu::ingest::answer_tokens(parsed));
  ScoredText scored;
  for (auto& token : tokens) {
    scored.tokens.push_back(std::move(token.text));
    scored.logprobs.push_back(token.logprob);
    if (token.id) scored.ids.push_back(*token.id);
    if (token.offset) scored.text_offsets.push_back(*token.offset);
  }
  // A list that covers some of the tokens only says nothing about the others.
  if (scored.ids.size() != scored.tokens.size()) scored.ids.clear();
  if (scored.text_offsets.size() != scored.tokens.size()) scored.text_offsets.clear();
  return scored;
}

}  // namespace driftgate::jobs
