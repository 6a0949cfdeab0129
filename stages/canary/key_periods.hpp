#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace driftgate::stages {

/// The unit in which a guard counts, and its canary for it: a sticky key in one of its periods of an hour.
/// The periods of a key begin at an offset that is a hash of the key, so that no moment of the day or of the
/// hour is the beginning of all of them.
inline constexpr std::int64_t kKeyPeriodUs = 3'600'000'000;
/// The same for the latencies of a canary, on each arm.
inline constexpr std::int64_t kLatencyPeriodUs = 600'000'000;
/// The number of the period of that length in which the key is at that time, from 0 at the epoch.
[[nodiscard]] std::int64_t key_period(std::uint64_t key, std::int64_t at_us,
                                      std::int64_t length_us = kKeyPeriodUs);

/// A key and the last of its periods that was counted.
struct CountedKey {
  std::uint64_t key = 0;
  std::int64_t period = 0;
  bool operator==(const CountedKey&) const = default;
};

/// Lets one request of each sticky key and period through: the first. A key is remembered until its period is
/// over; at most `most` keys are. When that many are, half of all keys are left out until at most three
/// quarters of `most` are remembered; at the beginning of an hour with fewer than a quarter, twice as many
/// count again. Which keys are left out follows from their hash and from nothing else, and how many from the
/// number of keys, so that neither depends on an outcome.
class KeyPeriods {
 public:
  static constexpr std::size_t kDefaultMost = 500'000;

  explicit KeyPeriods(std::size_t most = kDefaultMost) : most_(most) {}

  /// Whether this is the key's first request in its period, and the key is not left out. Requests come in
  /// routing order; an earlier time than the newest one counts as the newest.
  [[nodiscard]] bool first(std::uint64_t key, std::int64_t at_us);

  [[nodiscard]] std::int64_t newest_us() const { return newest_us_; }
  /// When keys whose period was over were last forgotten.
  [[nodiscard]] std::int64_t swept_us() const { return swept_us_; }
  [[nodiscard]] std::uint32_t halvings() const { return halvings_; }  ///< 2^−halvings of all keys count now
  [[nodiscard]] std::size_t size() const { return last_.size(); }     ///< remembered keys
  /// Begins at that time with keys that were counted before; those whose period is not over are to be stored.
  void begin(std::int64_t now_us, std::span<const CountedKey> keys);
  /// The keys that were counted since the last call, to be stored.
  [[nodiscard]] std::vector<CountedKey> take_new();
  /// Continues with what take_new gave, in the order in which it gave it: all that was given in the hour of
  /// `newest_us` and in the hour before, or more.
  void resume(std::int64_t newest_us, std::int64_t swept_us, std::uint32_t halvings,
              std::span<const CountedKey> keys);

 private:
  [[nodiscard]] bool is_left_out(std::uint64_t key) const;
  void sweep(std::int64_t at_us);
  void leave_out();

  std::size_t most_;
  std::int64_t newest_us_ = 0, swept_us_ = 0;
  std::uint32_t halvings_ = 0;
  std::unordered_map<std::uint64_t, std::int64_t> last_;
  std::vector<CountedKey> new_;
};

}  // namespace driftgate::stages
