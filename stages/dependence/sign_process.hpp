#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "stages/dependence/block_process.hpp"
#include "stages/dependence/dyadic_sums.hpp"

namespace driftgate::stages {

/// Which arm fails more in a block of time (docs/design/statistics.md, "Signs of blocks"). However long a
/// stall is and however many requests it fails, it decides the sign of the blocks that it is in and no more,
/// so that harm shows among stalls. In a block the failures of the arm with more requests are thinned to the
/// size of the other arm; the block counts by the probabilities, over the thinning, that the candidate has
/// more failures (up) or fewer (down). If the two arms fail alike, both are equally probable, and for every p
/// in (1/2, 1)
///
///   2^{up + down}·p^{up}·(1 − p)^{down},  of which the mean over p is taken,
///
/// is an e-value; averages in the exponents only make it smaller (Jensen). The null hypothesis is of blocks
/// and not of means: an incumbent that fails rarely and much, against a candidate that fails steadily at the
/// same mean rate, is beaten in most blocks, and that is called harm.
///
/// Blocks that depend on each other count for less. Where the scores of the incumbent's failures before the
/// canary depend on each other by `inflation` (CountScores), a block in which the smaller arm has the part m
/// of all requests counts 1/(1 + m·inflation). Where the signs themselves show more than that, and more than
/// chance, all count as much less.
class SignProcess {
 public:
  /// So many blocks, or a few bad minutes of one arm are most of what was seen: their signs are all alike,
  /// and nothing shows yet that they depend on each other.
  static constexpr std::uint64_t kLeastBlocks = 100;
  /// The signs' own dependence counts above this many standard deviations.
  static constexpr double kAllowance = 2;

  explicit SignProcess(double inflation) : inflation_(inflation) {}

  /// Adds a block that has ended. A block without requests of both arms compares nothing and is not counted.
  void add(const BlockCounts& block);

  /// 1 before kLeastBlocks blocks.
  [[nodiscard]] double e_value() const;
  [[nodiscard]] double up() const { return up_; }
  [[nodiscard]] double down() const { return down_; }
  [[nodiscard]] double own_inflation() const { return signs_.inflation(kAllowance); }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static SignProcess from_json(const nlohmann::json& json, double inflation);

 private:
  double inflation_;
  double up_ = 0, down_ = 0;
  double counted_up_ = 0, counted_down_ = 0;  ///< the same, each block as it counts
  DyadicSums signs_;                          ///< up − down of each block
};

}  // namespace driftgate::stages
