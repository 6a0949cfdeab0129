#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// The size of the next bet, from past values in [0,1] alone: √(2 ln(1/α)/(σ̂²_{t−1}·t·ln(1+t))), the
/// predictable plug-in of Waudby-Smith & Ramdas (JRSS-B 2024, section 3.3), with μ̂_0 = ½ and σ̂²_0 = ¼.
class PredictableBet {
 public:
  explicit PredictableBet(double alpha) : alpha_(alpha) {}

  [[nodiscard]] double next() const;
  void update(double x);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double mean() const;  ///< of the values themselves; ½ before the first

  [[nodiscard]] nlohmann::json to_json() const;
  static PredictableBet from_json(const nlohmann::json& json, double alpha);

 private:
  double alpha_;
  std::uint64_t count_ = 0;
  double sum_ = 0, squares_ = 0;  ///< Σ x and Σ (x_i − μ̂_i)²
};

/// Capital K_t = Π(1 + λ_i·(x_i − m_i)) against H0 "the conditional mean of each x_i in [0,1] is at most
/// m_i", λ_i the predictable bet, at most c/m_i with c = ½. An e-process: the probability that it ever
/// reaches 1/α under H0 is at most α (Ville), for any dependence that keeps the conditional means. With m = 0
/// the first positive value rejects. `alpha` only tunes the bets.
class BettingMartingale {
 public:
  static constexpr double kCap = 0.5;

  explicit BettingMartingale(double alpha) : bet_(alpha) {}

  /// x in [0,1]; m in [0,1] may change from value to value but is known before it.
  void update(double x, double m);
  [[nodiscard]] double e_value() const;
  [[nodiscard]] std::uint64_t count() const { return bet_.count(); }

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static BettingMartingale from_json(const nlohmann::json& json, double alpha);

 private:
  PredictableBet bet_;
  double log_wealth_ = 0;
  bool certain_ = false;  ///< m was 0 and a value was positive
};

/// Paired differences D in [−1,1] = candidate − incumbent, higher is better, against the margin δ ≥ 0:
/// `e_proof` grows against "mean D ≤ −δ", `e_harm` against "mean D ≥ −δ" (docs/design/statistics.md, "Paired
/// differences"). Both exact when every conditional mean respects its H0.
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

/// A confidence sequence for the mean of values in [0,1]: every m that betting has not rejected. Capital is
/// kept for each m of a grid and the limits are moved out to the grid, which is valid because capital against
/// "mean ≤ m" falls as m grows. Each limit holds at all times at once with probability 1 − alpha.
class BettingSequence {
 public:
  static constexpr std::size_t kIntervals = 256;

  explicit BettingSequence(double alpha);

  void update(double x);
  /// estimate, lower, upper; 0 and 1 where nothing is shown.
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
