#pragma once

#include <vector>

#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// An empty report with the α that this attempt spends.
[[nodiscard]] StageReport begin_report(schema::Stage stage, const schema::Contract& contract,
                                       const StageInputs& inputs);
/// The clauses that `stage` decides.
[[nodiscard]] std::vector<const schema::Clause*> clauses_of(const schema::Contract& contract,
                                                            schema::Stage stage);
/// Sets the verdict from the clauses; a stage of which nothing is demanded passes and says so.
void finish_report(StageReport& report, bool demanded);
/// Violated verdicts that Holm's procedure over the whole family does not reject become inconclusive, or pass
/// where their clause asks for no more than no_harm; those that resampling shows in every replicate and yet
/// too coarsely for the family become errors. True when there was one.
bool downgrade_by_holm(std::vector<schema::ClauseVerdict*>& family, double alpha,
                       const schema::Contract& contract);

}  // namespace driftgate::stages
