#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>

namespace driftgate::stages {

/// Is traffic split as configured? A Beta(½,½) mixture e-process over keys seen for the first time, each
/// against the share in force when it was routed; one mixture for each share, multiplied, since each
/// factor bets on its own keys with a predictive that uses only the past. Runs on through weight changes.
/// An alarm means that the measurement is broken, not that the candidate is. See docs/design/statistics.md,
/// "Traffic split".
class SplitGuard {
 public:
  /// Distinct shares that are told apart; keys of further ones are not counted.
  static constexpr std::size_t kMaxShares = 256;

  void update(bool candidate, std::uint32_t share_bp);

  [[nodiscard]] double e_value() const;
  [[nodiscard]] std::uint64_t keys() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception on a malformed value; fenced by the caller.
  static SplitGuard from_json(const nlohmann::json& json);

 private:
  struct Count {
    std::uint64_t candidate = 0, all = 0;
  };
  std::map<std::uint32_t, Count> by_share_;
  bool impossible_ = false;  ///< a key went to an arm whose share was zero
};

}  // namespace driftgate::stages
