#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// The size of the next bet, which follows from past values in [0, 1] alone: √(2·ln(1/α)/(σ̂²_{t−1}·t·ln(1 +
/// t))), the predictable plug-in of Waudby-Smith & Ramdas (JRSS-B 2024, section 3.3) with μ̂_0 = ½ and σ̂²_0
/// = ¼.
class PredictableBet {
 public:
  explicit PredictableBet(double alpha) : alpha_(alpha) {}

  [[nodiscard]] double next() const;
  void update(double x);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double mean() const;  ///< of the values; ½ before the first

  [[nodiscard]] nlohmann::json to_json() const;
  static PredictableBet from_json(const nlohmann::json& json, double alpha);

 private:
  double alpha_;
  std::uint64_t count_ = 0;
  double sum_ = 0, squares_ = 0;  ///< Σ x and Σ (x_i − μ̂_i)²
};

/// The capital K_t = Π(1 + λ_i·(x_i − m_i)) against H₀ "the conditional mean of each x_i in [0, 1] is at most
/// m_i", where λ_i is the predictable bet, at most ½/m_i. It is an e-process: under H₀ the probability that
/// it ever reaches 1/α is at most α (Ville's inequality), under any dependence that respects the conditional
/// means. With m_i = 0 the first positive value makes it infinite. `alpha` only tunes the bets.
class BettingMartingale {
 public:
  static constexpr double kCap = 0.5;

  explicit BettingMartingale(double alpha) : bet_(alpha) {}

  /// x in [0, 1]; m in [0, 1] may differ from value to value and must be known before x.
  void update(double x, double m);
  [[nodiscard]] double e_value() const;
  [[nodiscard]] std::uint64_t count() const { return bet_.count(); }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static BettingMartingale from_json(const nlohmann::json& json, double alpha);

 private:
  PredictableBet bet_;
  double log_wealth_ = 0;
  bool certain_ = false;  ///< m was 0 and a value was positive
};

/// Paired differences D = candidate − incumbent in [−1, 1], higher is better, against the margin δ ≥ 0:
/// `e_proof` is against "mean D ≤ −δ", `e_harm` against "mean D ≥ −δ". Both are exact if every conditional
/// mean respects the hypothesis (docs/design/statistics.md, "Paired differences").
class NonInferiorityProcess {
 public:
  NonInferiorityProcess(double margin, double alpha) : margin_(margin), proof_(alpha), harm_(alpha) {}

  void update(double difference);
  [[nodiscard]] double e_proof() const { return proof_.e_value(); }
  [[nodiscard]] double e_harm() const { return harm_.e_value(); }
  [[nodiscard]] std::uint64_t count() const { return proof_.count(); }
  [[nodiscard]] double mean() const;  ///< 0 before the first

  [[nodiscard]] nlohmann::json to_json() const;
  static NonInferiorityProcess from_json(const nlohmann::json& json, double margin, double alpha);

 private:
  double margin_;
  double sum_ = 0;
  BettingMartingale proof_, harm_;
};

/// A confidence sequence for the mean of values in [0, 1]: all means m that betting has not rejected. Capital
/// is kept for each m of a grid and the limits are rounded outwards to the grid, which is valid since the
/// capital against "mean ≤ m" falls as m grows. Each limit holds at all times simultaneously with probability
/// 1 − alpha.
class BettingSequence {
 public:
  static constexpr std::size_t kIntervals = 256;

  explicit BettingSequence(double alpha);

  void update(double x);
  /// The estimate and its limits; the lower limit is 0 and the upper one 1 where nothing is rejected.
  [[nodiscard]] QuantileLimits limits() const;
  [[nodiscard]] std::uint64_t count() const { return bet_.count(); }

  [[nodiscard]] nlohmann::json to_json() const;
  static BettingSequence from_json(const nlohmann::json& json, double alpha);

 private:
  double alpha_;
  PredictableBet bet_;
  std::vector<double> above_, below_;  ///< log-capital against "mean ≤ m" and "mean ≥ m", by grid point
};

}  // namespace driftgate::stages
