#pragma once

#include <string>
#include <vector>

#include "schema/verdict.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// Fills the report's ranking from its verdicts on slices, the worst excess first, and says in the message of
/// each slice that is beyond its limit while the corpus is not what the average hides. `corpus` holds each
/// clause's verdict on the whole corpus, demanded or not.
void rank_slices(const std::vector<schema::ClauseVerdict>& corpus, StageReport& report);

/// The ranking as a canonical JSON array: clause, where, role, verdict, estimate, lower, upper, limit, excess,
/// corpus_estimate, hidden_by_mean.
[[nodiscard]] std::string ranking_json(const std::vector<SliceRank>& ranking);

}  // namespace driftgate::stages
