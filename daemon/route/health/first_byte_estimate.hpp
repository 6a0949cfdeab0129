#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace driftgate::route {

/// How long an engine takes to the first byte of an answer, learned from its own answers: a histogram of
/// logarithmic bins, eight to the octave from 1 ms on, which forgets half of its weight after every
/// kForgetEvery answers, so that the newest one to two thousand count. Safe from any thread, without locks;
/// add() allocates nothing.
class FirstByteEstimate {
 public:
  static constexpr std::uint32_t kLeastAnswers = 32;  ///< before these nothing is estimated
  static constexpr std::uint32_t kRefreshEvery = 16;  ///< answers between two computations of the quantile
  static constexpr std::uint32_t kForgetEvery = 1'024;

  void add(double ms, std::uint32_t count = 1);
  /// The 99th percentile in ms, at most a tenth too large; the largest value while there are fewer than 100.
  [[nodiscard]] std::optional<double> p99_ms() const;

 private:
  static constexpr std::size_t kBins = 8 * 17 + 2;  ///< to 131 s; the last one has all above

  void refresh();
  void forget();

  std::array<std::atomic<std::uint32_t>, kBins> bins_{};
  std::atomic<std::uint32_t> added_ = 0;
  std::atomic<double> p99_ms_ = 0;  ///< 0: none yet
};

/// The time that an engine has for its first byte, in ms: twice the learned percentile and `floor_ms`, never
/// more than `cap_ms`; `cap_ms` while nothing is learned.
[[nodiscard]] std::uint32_t first_byte_limit_ms(std::optional<double> p99_ms, std::uint32_t floor_ms,
                                                std::uint32_t cap_ms);

}  // namespace driftgate::route
