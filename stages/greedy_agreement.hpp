#pragma once

#include <cstdint>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"

namespace driftgate::stages {

struct ShadowPair;

/// How far two greedy answers to one prompt agree. Of each answer the first schema::kGreedyTokens tokens
/// count.
struct GreedyAgreement {
  std::uint32_t equal = 0;    ///< tokens before the first that differs; an end differs from every token
  std::uint32_t longest = 0;  ///< tokens of the longer answer
  bool operator==(const GreedyAgreement&) const = default;
};

/// The value of a metric of greedy answers for one prompt (docs/design/measurement.md, "Figures of greedy
/// answers"): equal/longest, 1 for two empty answers; the tokens before the first difference,
/// schema::kGreedyTokens where there is none; 1 if the answers differ, else 0. NaN for other metrics.
[[nodiscard]] double greedy_figure(schema::Metric metric, const GreedyAgreement& agreement);

/// Decides a clause on `prefix_agreement`, `first_divergence` or `divergence_rate` on the pairs whose prompts
/// both engines answered greedily, at level alpha in each direction. The unit is the sticky key: each counts
/// once, by the mean of its prompts. Shares of prompts by exact binomial limits, or by betting where keys
/// have several prompts; means by betting over the metric's whole range. Both are exact. With floor_multiple
/// the limit rises to that multiple of the rate at which the candidate's own answers differ alone and in a
/// batch, taken at its lower limit; each of the two has half of the level. The verdict is error where no
/// prompt was answered by both engines with all tokens listed, and where a floor is wanted and was not
/// measured.
[[nodiscard]] schema::ClauseVerdict decide_greedy(const schema::Clause& clause,
                                                  const std::vector<const ShadowPair*>& pairs, double alpha,
                                                  std::uint64_t seed, schema::ClauseVerdict verdict);

}  // namespace driftgate::stages
