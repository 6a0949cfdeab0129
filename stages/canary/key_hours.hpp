#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <unordered_map>

namespace driftgate::stages {

/// The failures of one version in the unit of a guard (KeyPeriods): how many periods each key had, and in how
/// many of them its first request failed.
class KeyHours {
 public:
  /// The first request of a key in one of its periods.
  void observe(std::uint64_t key, bool failed);
  /// A request without a key, which is a key of its own.
  void observe_keyless(bool failed);

  [[nodiscard]] std::uint64_t keys() const { return keys_.size() + keyless_; }
  [[nodiscard]] std::uint64_t periods() const { return periods_; }
  [[nodiscard]] std::uint64_t failed() const { return failed_; }
  /// The one-sided upper limit, at 1 − `alpha`, of the share of periods that fail. The periods of a key are
  /// not independent of each other, so that the keys are the sample: the Clopper–Pearson limit at the number
  /// of independent periods that would leave the same variance (Korn & Graubard, "Confidence intervals for
  /// proportions with small expected number of positive counts estimated from survey data", 1998), which is
  /// never above the number of periods. 1 without any.
  [[nodiscard]] double upper(double alpha) const;

  /// Sorted by key, so that equal tallies give equal values.
  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  void restore(const nlohmann::json& json);

 private:
  struct Key {
    std::uint8_t periods = 0, failed = 0;  ///< of at most kMostPeriods, after which a key is not counted on
  };
  static constexpr std::uint8_t kMostPeriods = 255;

  std::unordered_map<std::uint32_t, Key> keys_;  ///< by a hash of the key's; two that share it count as one
  std::uint64_t periods_ = 0, failed_ = 0;       ///< with those of requests without a key
  std::uint64_t keyless_ = 0, keyless_failed_ = 0;
};

}  // namespace driftgate::stages
