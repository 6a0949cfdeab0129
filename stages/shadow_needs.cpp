#include "stages/shadow_needs.hpp"

#include <algorithm>

#include "schema/contract/least_n.hpp"

namespace driftgate::stages {

std::vector<ShadowNeed> shadow_needs(const schema::Contract& contract, std::uint32_t k) {
  std::vector<ShadowNeed> needs{{{}, 0}};
  const auto raise = [&](const schema::SliceWhere& where, std::uint64_t pairs) {
    auto found = std::ranges::find(needs, where, &ShadowNeed::where);
    if (found == needs.end()) found = needs.insert(needs.end(), {where, 0});
    found->pairs = std::max(found->pairs, pairs);
  };
  for (const schema::Clause& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(schema::Stage::shadow_runtime)) == 0) continue;
    const bool critical =
        !contract.slices.critical.empty() &&
        std::ranges::find(clause.slices, schema::SliceRole::critical) != clause.slices.end();
    for (const schema::LeastN& least : schema::least_n(clause, contract, schema::Runs(k))) {
      // Prompts are asked apart from the pairs, as many as the stage asks.
      const bool pairs = least.unit == "pairs" && !least.counted && least.n;
      if (least.stage != schema::Stage::shadow_runtime || !pairs) continue;
      if (!critical) {
        raise({}, *least.n);
        continue;
      }
      for (const schema::SliceWhere& where : contract.slices.critical) raise(where, *least.n);
    }
  }
  return needs;
}

std::uint64_t pairs_asked_for(const schema::Contract& contract) {
  std::uint64_t asked = 0;
  for (const schema::Clause& clause : contract.clauses) {
    const auto* signal = std::get_if<schema::SignalSubject>(&clause.subject);
    if (signal != nullptr && signal->signal == schema::Metric::shadow_pairs)
      asked = std::max(asked, clause.limits.min_count.value_or(0));
  }
  return asked;
}

}  // namespace driftgate::stages
