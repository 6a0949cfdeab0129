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

/// What a fixed-data stage needs beside its contract and its data.
struct StageInputs {
  /// k: how many times these kernels and this checkpoint were measured afresh under this contract,
  /// this time included. The stage spends α_k = 6α/(π²k²) of the contract's α (docs/design/statistics.md,
  /// "Spending").
  std::uint32_t attempt = 1;
  /// Spends exactly this α instead, for a look that is not a stage (`driftgate drift --contract`).
  std::optional<double> alpha;
  std::uint64_t seed = 0;      ///< orders and resamplings follow from it
  std::string code_version{};  ///< goes into the report as given
  Floors floors{};             ///< noise floors on the stage's corpus; their tables outlive the call
};

/// One slice's place in the ranking of the statistical-slice report: how far it is beyond its limit.
struct SliceRank {
  std::string clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  double estimate = 0, limit = 0;
  std::optional<double> lower, upper;  ///< one-sided limits of the estimate at the report's α
  schema::Verdict verdict = schema::Verdict::inconclusive;
  double excess = 0;            ///< estimate over its limit, as a multiple of the limit: 0 = at the limit
  bool hidden_by_mean = false;  ///< this slice is beyond the limit and the corpus is not
  std::optional<double> corpus_estimate;  ///< the same figure over the whole corpus
};

/// What a stage decided and why.
struct StageReport {
  schema::Stage stage{};
  schema::Verdict verdict = schema::Verdict::error;
  std::vector<schema::ClauseVerdict> clauses;
  std::vector<BoundChain> bounds;  ///< [0] is the corpus
  std::vector<SliceRank> ranking;  ///< worst excess first
  bool nothing_demanded = false;   ///< no clause of this contract is decided here
  std::vector<std::string> notes;  ///< plain sentences for people
  double alpha = 0;                ///< the α that was spent
  std::uint64_t seed = 0;
  std::string code_version;
  std::uint32_t rules = schema::kCurrentRules;  ///< version of the rules that it was decided by
};

/// Whether measurements can be decided by this version of the rules (schema/verdict_rule.hpp). Stages decide
/// by the newest; verdicts of older ones follow from the numbers in their evidence, and are not made again.
[[nodiscard]] constexpr bool decides_by(std::uint32_t rules) {
  return rules == schema::kCurrentRules;
}

}  // namespace driftgate::stages
