#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// What was counted in a length of time. Of a quantity whose expectation is rate·size, `noise`·rate is the
/// variance that it has if the events in it are independent.
struct Portion {
  double value = 0, size = 0, noise = 0;
};

/// How much a quantity that comes in units of equal length varies over windows of 1, 2, 4, … units: a
/// quantity whose units are independent has a variance that grows with the length of the window, and one that
/// wanders has a variance that grows faster (the variance ratio of Lo & MacKinlay, Rev. Financ. Stud. 1988).
/// Windows of more than one unit overlap by half. Nothing but sums is kept, so that a day of units takes a
/// few numbers.
class DyadicSums {
 public:
  static constexpr std::size_t kLevels = 13;
  /// Windows are at most this share of what was seen: of longer ones there are too few.
  static constexpr double kLongestShare = 1.0 / 8;

  void add(const Portion& unit);
  /// Adds the windows of another record. Those that have not ended, there and here, are not joined.
  void include(const DyadicSums& other);

  [[nodiscard]] std::uint64_t units() const { return units_; }
  /// The number of levels whose windows are short enough; level k has windows of 2^k units.
  [[nodiscard]] std::size_t levels() const;
  [[nodiscard]] double value() const { return sums_.front().value; }
  [[nodiscard]] double size() const { return sums_.front().size; }
  [[nodiscard]] double rate() const;  ///< Σ value/Σ size; 0 if nothing was seen
  /// The mean over windows of (value − rate·size)², corrected for the estimated rate, of `size` and of
  /// `noise`; 0 if there is no window.
  [[nodiscard]] double variance(std::size_t level) const;
  [[nodiscard]] double mean_size(std::size_t level) const;
  [[nodiscard]] double mean_noise(std::size_t level) const;
  /// The standard deviation of `variance` relative to itself, of a normal quantity whose units are
  /// independent.
  [[nodiscard]] double deviation(std::size_t level) const;
  /// By which part the variance over windows of this level exceeds that of as many units of the level `from`
  /// which are independent of each other.
  [[nodiscard]] double excess(std::size_t level, std::size_t from = 0) const;
  /// The largest `excess` over `from` of the levels above it of which that over a single unit is more than
  /// `allowance` standard deviations; at least 0.
  [[nodiscard]] double inflation(double allowance, std::size_t from = 0) const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static DyadicSums from_json(const nlohmann::json& json);

 private:
  struct Sums {
    double windows = 0, value = 0, size = 0, noise = 0;
    double value_value = 0, value_size = 0, size_size = 0;
    void add(const Portion& window);
  };
  /// The newest window of a level that overlaps no other, and whether it is the second of a pair.
  struct Newest {
    Portion window;
    bool any = false, second = false;
  };
  [[nodiscard]] double windows_apart(std::size_t level) const;  ///< as many as do not overlap

  std::uint64_t units_ = 0;
  std::array<Sums, kLevels> sums_{};
  std::array<Newest, kLevels> newest_{};
};

}  // namespace driftgate::stages
