#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace driftgate::api {

/// A token bucket for each principal. At most kMaxPrincipals are remembered; full ones are forgotten first.
class RateLimiter {
 public:
  static constexpr std::size_t kMaxPrincipals = 4096;
  RateLimiter(double per_second, double burst) : per_second_(per_second), burst_(burst) {}
  /// Takes one request of `principal` at `now_us`; false when it must wait.
  [[nodiscard]] bool allow(const std::string& principal, std::int64_t now_us);

 private:
  struct Bucket {
    double tokens = 0;
    std::int64_t at_us = 0;
  };
  void forget_full(std::int64_t now_us);
  [[nodiscard]] double level(const Bucket& bucket, std::int64_t now_us) const;
  const double per_second_, burst_;
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace driftgate::api
