#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <unordered_map>

namespace driftgate::stages {

/// How much less the values of one arm say because keys give several of them: by how much the variance of a
/// mean over all values is larger than if they were independent. That is 1 + (m − 1)·ρ, where m is the number
/// of values of the key of a value, on average, and ρ the correlation of two values of a key, taken from
/// those that follow each other. While few follow each other, ρ is taken for larger than it seems, up to 1.
/// It is 1 as long as no key has given two values.
///
/// At most kMostTracked keys are tracked; when there are more, half of them by a hash of the key. Values are
/// given as bins of QuantileSequence.
class RepeatedKeys {
 public:
  static constexpr std::size_t kMostTracked = 4'096;

  void observe(std::uint64_t key, std::int32_t bin);
  /// A value without a key, which is a key of its own.
  void observe_keyless() { ++keyless_; }

  /// For the share of values in bins above `bin`, which is `share`.
  [[nodiscard]] double inflation_of_share(std::int32_t bin, double share) const;
  /// For the mean of the values' logarithms.
  [[nodiscard]] double inflation_of_mean() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static RepeatedKeys from_json(const nlohmann::json& json);

 private:
  struct Key {
    std::int32_t last = 0;
    std::uint32_t values = 0;
  };
  [[nodiscard]] bool is_left_out(std::uint64_t key) const;
  [[nodiscard]] double inflation(double correlation) const;

  std::unordered_map<std::uint64_t, Key> keys_;
  std::uint32_t halvings_ = 0;
  std::uint64_t keyless_ = 0;
  std::map<std::int32_t, std::uint64_t> lower_of_pairs_;  ///< pairs by the lower of their two bins
  double pairs_ = 0;
  double sum_ = 0, squares_ = 0, products_ = 0;  ///< of the bins of all pairs
};

}  // namespace driftgate::stages
