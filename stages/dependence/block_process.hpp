#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "schema/contract/contract_blocks.hpp"

namespace driftgate::stages {

/// The requests in one block of time, by arm: those of sticky keys that had not failed before, and those of
/// them that failed, which are the first failures of their keys.
struct BlockCounts {
  std::uint64_t candidate = 0, incumbent = 0;
  std::uint64_t failed_candidate = 0, failed_incumbent = 0;
};

/// Harm of a candidate against the incumbent where failures of an arm come together, as in a stall of its
/// engine. The independent unit is then a block of time that is longer than a stall, not a failure
/// (docs/design/statistics.md, "Blocks of time"). With n requests and f failures of each arm (c: candidate,
/// i: incumbent) in a block and r = max_ratio, the difference candidate − r·incumbent of the failure rates,
///
///   X = (n_i·f_c − r·n_c·f_i)/(r·n_c + n_i),
///
/// weighted as by Mantel & Haenszel (J. Natl. Cancer Inst. 1959), has a mean of at most 0 if the candidate
/// fails at most r times as often as the incumbent, with or without stalls. The e-value is the one-sided
/// normal mixture behind the asymptotic confidence sequence of means (Waudby-Smith, Arbour, Sinha, Kennedy &
/// Ramdas, Ann. Statist. 2024, appendix B.1):
///
///   2/√(tρ² + 1)·exp(ρ²Z²/(2(tρ² + 1)))·Φ(ρZ/√(tρ² + 1)),  Z = ΣX/σ̂.
///
/// σ̂² is the sample variance of X, but at least the variance under independent failures, Σ f·q·(1 − q)/t
/// with q = r·n_c/(r·n_c + n_i), each block times 1 + excess_of_difference(`excess`, q): a few rare failures
/// of the larger arm would make the sample variance too small, and so would blocks that depend on each other
/// because failure rates wander (Wander). The test is asymptotic and therefore gives no evidence before
/// `kLeastBlocks` blocks. It shows harm only.
class BlockProcess {
 public:
  static constexpr std::uint64_t kLeastBlocks = schema::kLeastBlocks;
  /// ρ²: the test is most sensitive at about 100 blocks and an e-value of 1,000.
  static constexpr double kRho2 = 0.16;

  explicit BlockProcess(double max_ratio) : max_ratio_(max_ratio) {}

  /// Adds a block that has ended. A block without requests of both arms compares nothing and is not counted.
  void add(const BlockCounts& block);

  [[nodiscard]] double e_value(double excess) const;  ///< 1 before kLeastBlocks
  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }
  /// The Mantel–Haenszel estimate of the candidate's failure rate over the incumbent's; std::nullopt before
  /// the incumbent has failed.
  [[nodiscard]] std::optional<double> ratio() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static BlockProcess from_json(const nlohmann::json& json, double max_ratio);

 private:
  double max_ratio_;
  std::uint64_t blocks_ = 0;
  double mean_ = 0, squares_ = 0;         ///< of X, by Welford's recurrence
  double independent_ = 0;                ///< Σ f·q·(1−q)
  double swings_ = 0;                     ///< Σ f·q·(1−q)·excess_of_difference(1, q)
  double candidate_ = 0, incumbent_ = 0;  ///< Σ n_i·f_c/n and Σ n_c·f_i/n
};

}  // namespace driftgate::stages
