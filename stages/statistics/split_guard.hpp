#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// Tests whether traffic is split as configured (docs/design/statistics.md, "Traffic split"): a Beta(½, ½)
/// mixture e-process over keys that are seen for the first time, each against the share in force when it was
/// routed. There is one mixture for each share; they are multiplied, which is valid since each bets on its
/// own keys by the past alone. It continues through changes of the share. An alarm means that the measurement
/// is broken, not that the candidate is.
class SplitGuard {
 public:
  /// The number of distinct shares that are distinguished. Keys of further shares are not counted.
  static constexpr std::size_t kMaxShares = 256;

  void update(bool candidate, std::uint32_t share_bp);

  [[nodiscard]] double e_value() const;
  [[nodiscard]] std::uint64_t keys() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  static SplitGuard from_json(const nlohmann::json& json);

 private:
  struct Count {
    std::uint64_t candidate = 0, all = 0;
  };
  std::map<std::uint32_t, Count> by_share_;
  bool impossible_ = false;  ///< a key went to an arm whose share was 0
};

}  // namespace driftgate::stages
