#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace driftgate::simulation {

/// What a check of the sampler's support sees, and how much the sampler really loses.
struct SupportCapture {
  std::uint32_t vocabulary = 0;
  std::vector<float> train, inf;                   ///< rows x vocabulary logits; -infinity is a masked token
  std::vector<std::int64_t> sequences, positions;  ///< rows of a sequence follow each other, from position 0
  std::vector<std::int64_t> tokens;
  double p_lost = 0;  ///< mean over rows of p's mass on the tokens that are never taken
  double q_lost = 0;  ///< the same of q's mass
};

/// A population of captures that was chosen to break a check of the sampler's support. It was written from
/// the claim alone, without knowledge of the method.
///
/// Where no tokens are lost, each token is drawn from the softmax of its row of `inf` as stored. There
/// "broken" must be said in at most 5% of the captures (the goal is 0.5%). Where tokens are lost, each is
/// drawn from the same softmax without them. In a findable world they hold at least 1% of the mass of p and
/// of q, or q's is nothing in float32, and 2,000 rows must show it in at least 95% of the captures. The other
/// lossy worlds are there to be reported.
struct SupportWorld {
  const char* name;  ///< plain words, shown to readers in a table
  bool lost;         ///< tokens are lost
  bool findable;     ///< the goal of 95% applies
  SupportCapture (*draw)(std::uint64_t seed, std::uint32_t rows);
};

/// All worlds, in a fixed order: first those without loss.
[[nodiscard]] std::span<const SupportWorld> support_worlds();

}  // namespace driftgate::simulation
