#pragma once

#include <vector>

#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// A report without verdicts, with the level that this attempt spends.
[[nodiscard]] StageReport begin_report(schema::Stage stage, const schema::Contract& contract,
                                       const StageInputs& inputs);
/// The clauses that `stage` decides.
[[nodiscard]] std::vector<const schema::Clause*> clauses_of(const schema::Contract& contract,
                                                            schema::Stage stage);
/// Sets the verdict of the stage from those of its clauses. A stage for which nothing is demanded passes,
/// with a note.
void finish_report(StageReport& report, bool demanded);
/// Applies Holm's procedure to a family of verdicts. A violation that it does not reject becomes
/// inconclusive, or a pass with no_harm_only if its clause has `require: no_harm`; it becomes an error if
/// every resample shows the harm but the number of resamples is too small for a family of this size. True if
/// a verdict was changed.
bool downgrade_by_holm(std::vector<schema::ClauseVerdict*>& family, double alpha,
                       const schema::Contract& contract);

}  // namespace driftgate::stages
