#include "daemon/api/access/rate_limiter.hpp"

#include <algorithm>

namespace driftgate::api {

double RateLimiter::level(const Bucket& bucket, std::int64_t now_us) const {
  // A clock that went back gives nothing.
  const double elapsed_s = static_cast<double>(std::max<std::int64_t>(0, now_us - bucket.at_us)) / 1e6;
  return std::min(burst_, bucket.tokens + elapsed_s * per_second_);
}

void RateLimiter::forget_full(std::int64_t now_us) {
  std::erase_if(buckets_, [&](const auto& item) { return level(item.second, now_us) >= burst_; });
  if (buckets_.size() >= kMaxPrincipals) buckets_.clear();
}

bool RateLimiter::allow(const std::string& principal, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  if (buckets_.size() >= kMaxPrincipals && !buckets_.contains(principal)) forget_full(now_us);
  Bucket& bucket = buckets_.try_emplace(principal, Bucket{burst_, now_us}).first->second;
  bucket.tokens = level(bucket, now_us);
  bucket.at_us = now_us;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

}  // namespace driftgate::api
