#include <algorithm>
#include <limits>
#include <utility>

#include "stages/canary/canary_impl.hpp"
#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

/// Whether the fallback kernel serves what the stream is about, so that the candidate was not seen there.
bool is_away(const WatchedClause& watched) {
  return watched.trip && watched.trip->phase == TripPhase::on_fallback;
}

PromotedRate promoted_rate(const RateStream& stream) {
  PromotedRate rate{
      .clause = stream.watched.clause.address(), .where = stream.watched.where, .role = stream.watched.role};
  const KeyHours& hours = stream.hours();
  const RateCounts& counts = stream.counts();
  if (hours.periods() >= counts.keys) {
    rate.keys = hours.keys();
    rate.periods = hours.periods();
    rate.failed = hours.failed();
    rate.upper = hours.upper(kPromotedAlpha);
  } else {  // most was seen by a version of this program that counted nothing else
    rate.keys = rate.periods = counts.keys;
    rate.failed = counts.failed_keys;
    rate.upper = clopper_pearson_upper(rate.failed, rate.keys, kPromotedAlpha);
  }
  return rate;
}

}  // namespace

std::map<std::uint32_t, double> LatencyStream::candidate_upper() const {
  std::map<std::uint32_t, double> upper;
  for (std::uint32_t stratum = 0; stratum < strata_; ++stratum) {
    const auto found = values_.find(stratum);
    const bool known = found != values_.end() && count(found->second[1]) > 0;
    upper[stratum] = known ? limits(found->second[1]).upper : std::numeric_limits<double>::infinity();
  }
  return upper;
}

Promoted CanaryState::promoted() const {
  Promoted promoted;
  promoted.block_us = impl_->levels.block_us;
  for (const auto& [key, known] : impl_->keys) {
    if (known.hour == 0) continue;
    promoted.keys.push_back({key, key_period(key, impl_->origin_us) + known.hour - 1});
  }
  for (const RateStream& stream : impl_->rates) {
    if (is_away(stream.watched)) continue;
    promoted.rates.push_back(promoted_rate(stream));
  }
  for (const LatencyStream& stream : impl_->latencies) {
    if (is_away(stream.watched)) continue;
    const std::string clause = stream.watched.clause.address();
    auto upper = stream.candidate_upper();
    // A clause with two limits has two streams: of the same answers but for those that a relative limit
    // cannot use.
    const auto known = std::ranges::find_if(promoted.latencies, [&](const PromotedLatency& one) {
      return one.clause == clause && one.where == stream.watched.where;
    });
    if (known == promoted.latencies.end()) {
      promoted.latencies.push_back({clause, stream.watched.where, stream.watched.role, std::move(upper)});
      continue;
    }
    for (auto& [stratum, limit] : known->upper_ms) limit = std::min(limit, upper[stratum]);
  }
  return promoted;
}

}  // namespace driftgate::stages
