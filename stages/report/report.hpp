#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::stages {

/// What a fixed-data stage needs besides its contract and its data.
struct StageInputs {
  /// k: how often these kernels and this checkpoint have been measured with new captures under this contract,
  /// including this time. The stage spends α_k = 6α/(π²k²) of the contract's α (docs/design/statistics.md,
  /// "Spending").
  std::uint32_t attempt = 1;
  /// The level to spend instead, for an evaluation that is not a stage of a promotion (`driftgate drift
  /// --contract`).
  std::optional<double> alpha;
  std::uint64_t seed = 0;      ///< determines random orders and resampling
  std::string code_version{};  ///< copied to the report
  Floors floors{};             ///< noise floors on the stage's corpus; their tables are not owned
};

/// A slice in the ranking of the statistical-slice report, by how far it is beyond the limit of a clause.
struct SliceRank {
  std::string clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  double estimate = 0, limit = 0;
  std::optional<double> lower, upper;  ///< one-sided limits of the estimate at the report's level
  schema::Verdict verdict = schema::Verdict::inconclusive;
  double excess = 0;  ///< how far beyond the limit, as a multiple of |limit|: 0 at the limit, negative within
  bool hidden_by_mean = false;  ///< this slice is beyond the limit and the corpus is not
  std::optional<double> corpus_estimate;  ///< the same figure over the whole corpus
};

/// The decision of a stage with everything that it was based on.
struct StageReport {
  schema::Stage stage{};
  schema::Verdict verdict = schema::Verdict::error;
  std::vector<schema::ClauseVerdict> clauses;
  std::vector<BoundChain> bounds;  ///< of the corpus, then of slices
  std::vector<SliceRank> ranking;  ///< largest excess first
  bool nothing_demanded = false;   ///< the contract has no clause for this stage
  std::vector<std::string> notes;  ///< sentences for people
  double alpha = 0;                ///< the level that was spent
  std::uint64_t seed = 0;
  std::string code_version;
  std::uint32_t rules = schema::kCurrentRules;  ///< the version of the rules that it was decided by
};

/// Whether measurements can be decided by this version of the rules (schema/verdict_rule.hpp). Stages decide
/// by the newest version. Verdicts of older versions are derived again from their recorded numbers, and are
/// not made anew from measurements.
[[nodiscard]] constexpr bool decides_by(std::uint32_t rules) {
  return rules == schema::kCurrentRules;
}

}  // namespace driftgate::stages
