#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace driftgate::stages {

/// Lets one request of each sticky key and day (UTC) through: the first. The keys of the day are remembered,
/// at most `most` of them. When that many were seen, half of all keys are left out for the rest of the day,
/// and half of the others when it is reached again. Which ones follows from a hash of key and day and from
/// nothing else, so that leaving them out depends on no outcome.
class DayKeys {
 public:
  static constexpr std::int64_t kDayUs = 86'400'000'000;
  static constexpr std::size_t kDefaultMost = 500'000;

  explicit DayKeys(std::size_t most = kDefaultMost) : most_(most) {}

  /// Whether this is the key's first request on its day, and the key is not left out. Requests come in
  /// routing order; one of an earlier day counts as one of the newest day.
  [[nodiscard]] bool first(std::uint64_t key, std::int64_t routed_us);

  [[nodiscard]] std::int64_t day() const { return day_; }             ///< in days since the epoch
  [[nodiscard]] std::uint32_t halvings() const { return halvings_; }  ///< 2^−halvings of all keys count now
  [[nodiscard]] std::size_t size() const { return keys_.size(); }     ///< remembered keys
  /// The keys that were remembered since the last call, to be stored with the day.
  [[nodiscard]] std::vector<std::uint64_t> take_new();
  /// Continues a day with keys that take_new gave.
  void resume(std::int64_t day, std::uint32_t halvings, std::span<const std::uint64_t> keys);

 private:
  [[nodiscard]] bool is_left_out(std::uint64_t key) const;

  std::size_t most_;
  std::int64_t day_ = 0;
  std::uint32_t halvings_ = 0;
  std::unordered_set<std::uint64_t> keys_;
  std::vector<std::uint64_t> new_;
};

}  // namespace driftgate::stages
