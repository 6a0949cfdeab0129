#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "schema/contract/contract_blocks.hpp"

namespace driftgate::stages {

/// What one block of time held: requests of sticky keys that had not failed before, and those of them that
/// failed (the first failures of their keys), of each arm.
struct BlockCounts {
  std::uint64_t candidate = 0, incumbent = 0;
  std::uint64_t failed_candidate = 0, failed_incumbent = 0;
};

/// Harm of a candidate against the incumbent where failures of one arm come together, as in a stall of its
/// engine (docs/design/statistics.md, "Blocks of time"): what is independent then is a block of time that is
/// longer than a stall, never a failure. With n requests and f failures of each arm in a block and r =
/// max_ratio,
///   X = (n_i·f_c − r·n_c·f_i)/(r·n_c + n_i),
/// the difference of the arms' rates, candidate − r·incumbent, weighted as Mantel and Haenszel do (J. Natl.
/// Cancer Inst. 1959), has a mean of at most 0 when the candidate fails at most r times as often, stalls of
/// either arm or not. The e-value is the one-sided normal mixture behind the asymptotic confidence sequence
/// of means (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, Ann. Statist. 2024, appendix B.1):
///   2/√(tρ²+1)·exp(ρ²Z²/(2(tρ²+1)))·Φ(ρZ/√(tρ²+1)),  Z = ΣX/σ̂,
/// σ̂² the blocks' own variance, and never less than independent failures would give (Σ f·q·(1−q)/t,
/// q = r·n_c/(r·n_c + n_i)), since few rare failures of the larger arm would make it too small. Asymptotic,
/// and therefore silent before `kLeastBlocks` blocks. Harm only.
class BlockProcess {
 public:
  static constexpr std::uint64_t kLeastBlocks = schema::kLeastBlocks;
  /// ρ²: most sensitive at about 100 blocks and an e-value of 1,000.
  static constexpr double kRho2 = 0.16;

  explicit BlockProcess(double max_ratio) : max_ratio_(max_ratio) {}

  /// A block that has ended. One without a request of either arm compares nothing and is not counted.
  void add(const BlockCounts& block);

  [[nodiscard]] double e_value() const;  ///< 1 before kLeastBlocks
  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }
  /// The candidate's failure rate over the incumbent's (Mantel–Haenszel); nothing before the incumbent
  /// failed.
  [[nodiscard]] std::optional<double> ratio() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static BlockProcess from_json(const nlohmann::json& json, double max_ratio);

 private:
  double max_ratio_;
  std::uint64_t blocks_ = 0;
  double mean_ = 0, squares_ = 0;         ///< of X, by Welford's recurrence
  double independent_ = 0;                ///< Σ f·q·(1−q)
  double candidate_ = 0, incumbent_ = 0;  ///< Σ n_i·f_c/n and Σ n_c·f_i/n
};

}  // namespace driftgate::stages
