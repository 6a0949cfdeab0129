#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace driftgate::stages {

/// The largest time without an observation, in µs, that counts as a start of processes (start_mass).
inline constexpr std::int64_t kLongestPauseUs = 86'400'000'000;

/// The weight of the processes that begin with an observation: the time in µs since the observation before,
/// as a part of `mean_time_us`. It is at least 0 and is that of kLongestPauseUs at most, so that a clock that
/// was set starts nothing. Both times are by one clock.
[[nodiscard]] double start_mass(std::int64_t before_us, std::int64_t now_us, std::int64_t mean_time_us);

/// One way to bet against "the mean is at most the limit": a value x multiplies what was won so far by the
/// factor 1 + stake·(x/limit − 1), whose mean is then at most 1. The weights of a detector's bets add up
/// to 1.
struct Bet {
  double stake = 0;  ///< in (0, 1)
  double weight = 0;
};

/// Bets on single events whose rate has risen from at most `limit` to r·limit, r = 1.25·√2^k for k = 0, 1, …
/// below certainty. With the stake (r·limit − limit)/(1 − limit) the factors are the likelihood ratios.
/// Weights fall as 0.5^|k − 1|: a large rise shows soon in any case, and the smallest is past what many limits
/// are set for. `limit` in (0, 1).
[[nodiscard]] std::vector<Bet> event_bets(double limit);
/// Bets on values in [0, 1] of unknown variance, such as shares of blocks of time: stakes 0.95·2^{−k}, k = 0
/// … 8, with equal weights.
[[nodiscard]] std::vector<Bet> share_bets();

/// A change detector for values in [0, 1] whose conditional mean was at most `limit` and may rise at any time
/// (Shin, Ramdas & Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", 2022;
/// docs/design/statistics.md, "The guard"). For each bet k with the factor L_k of a value it keeps
///
///   S_k ← L_k·(S_k + h)       the sum over all starts (e-SR), each with a weight h,
///   C_k ← L_k·max(C_k, 1)     the largest over all starts (e-CUSUM),
///
/// and their means over the bets. While every conditional mean is at most `limit`, E[sum] is at most Σh: if h
/// is the time since the observation before as a part of T (start_mass), the mean time until `sum` reaches A
/// is at least A·T, however many observations there are. The e-CUSUM says since when.
class EDetector {
 public:
  EDetector(double limit, const std::vector<Bet>& bets);

  /// S_k stays at most this, so that an alarm clears soon once the values are good again.
  static constexpr double kMostSum = 1e6;

  /// Adds a value, which counts as the nearest one in [0, 1]. `start` is h, at least 0; `at_us` its time.
  void observe(double value, double start, std::int64_t at_us);
  /// Forgets what was seen.
  void restart();

  [[nodiscard]] double limit() const { return limit_; }
  [[nodiscard]] std::uint64_t seen() const { return seen_; }
  [[nodiscard]] double mean() const;     ///< of all values; 0 without any
  [[nodiscard]] double sum() const;      ///< the e-SR; infinite once a value was above a limit of 0
  [[nodiscard]] double largest() const;  ///< the e-CUSUM with starts of weight 1

  /// The start whose process has the largest part in the e-CUSUM, as an estimate of when the change happened,
  /// and the mean of the values since then.
  struct Change {
    std::int64_t since_us = 0;
    std::uint64_t seen = 0;
    double mean = 0;
  };
  [[nodiscard]] Change change() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Restores what to_json wrote of a detector with the same limit and bets. Throws nlohmann::json::exception
  /// for a malformed value and for one with fewer bets; the caller catches it.
  void restore(const nlohmann::json& json);

 private:
  struct Process {
    Bet bet;
    double sum = 0, largest = 0;
    std::int64_t since_us = 0;
    std::uint64_t seen = 0;
    double total = 0;  ///< of the values since `since_us`
  };
  [[nodiscard]] const Process* leading() const;

  double limit_;
  std::vector<Process> processes_;
  std::uint64_t seen_ = 0;
  double total_ = 0;
  bool impossible_ = false;  ///< the limit is 0 and a value was above it
};

}  // namespace driftgate::stages
