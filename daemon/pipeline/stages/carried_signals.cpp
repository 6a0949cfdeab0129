#include "daemon/pipeline/stages/carried_signals.hpp"

#include <algorithm>

#include "daemon/store/look_up.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "schema/verdict.hpp"

namespace driftgate::pipeline {
namespace {

bool is_carried(const schema::Clause& clause) {
  const auto* signal = std::get_if<schema::SignalSubject>(&clause.subject);
  const bool canary = (clause.stages & schema::stage_bit(schema::Stage::canary)) != 0;
  return signal != nullptr && canary && signal->signal != schema::Metric::telemetry;
}

}  // namespace

schema::Result<void> carry_signals(store::Store& store, const schema::Contract& contract,
                                   std::string_view promotion, std::int64_t now_us,
                                   stages::CanaryContext& context) {
  if (std::ranges::none_of(contract.clauses, is_carried)) return {};
  auto rows = TRY(look_up(store, store::list_promotion_verdicts, promotion));
  for (const schema::Clause& clause : contract.clauses) {
    if (!is_carried(clause)) continue;
    const store::VerdictRow* newest = nullptr;
    for (const auto& row : rows) {
      const bool shadow = row.stage.stage == schema::to_string(schema::Stage::shadow_runtime);
      if (shadow && row.clause == clause.address()) newest = &row;  // by evidence seq
    }
    if (newest == nullptr) continue;
    auto verdict = TRY(schema::clause_verdict_from_json(newest->detail));
    if (verdict.verdict == schema::Verdict::inconclusive) continue;
    context.carried.push_back(std::move(verdict));
    context.carried_age_ms =
        std::max(context.carried_age_ms, std::max<std::int64_t>(0, now_us - newest->decided_us) / 1'000);
  }
  return {};
}

}  // namespace driftgate::pipeline
