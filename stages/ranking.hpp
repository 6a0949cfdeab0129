#pragma once

#include <string>
#include <vector>

#include "schema/verdict.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// Fills in the ranking of the report from its verdicts on slices, the largest excess first. For a slice that
/// is beyond a limit which the corpus keeps, the message of the verdict notes that the average hides it.
/// `corpus` has the verdict of each clause on the whole corpus, whether or not the clause demands one.
void rank_slices(const std::vector<schema::ClauseVerdict>& corpus, StageReport& report);

/// The ranking as a canonical JSON array of objects with the members clause, where, role, verdict, estimate,
/// limit, excess and hidden_by_mean, and where they exist lower, upper and corpus_estimate.
[[nodiscard]] std::string ranking_json(const std::vector<SliceRank>& ranking);

}  // namespace driftgate::stages
