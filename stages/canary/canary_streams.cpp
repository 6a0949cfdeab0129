#include "stages/canary/canary_streams.hpp"

#include <algorithm>
#include <cmath>

#include "schema/contract/spending.hpp"
#include "stages/canary/canary_scopes.hpp"
#include "stages/statistics/e_values.hpp"

namespace driftgate::stages {
namespace {

/// Fresh processes after a trip clear it only while they see no sign of harm.
constexpr double kClearEValue = 1.0;

template <typename Process, typename Value>
double over_starts(const std::vector<Process>& processes, std::uint32_t starts, Value value) {
  std::vector<double> begun;
  begun.reserve(processes.size());
  for (const Process& process : processes) begun.push_back(value(process));
  return mean_over_starts(begun, starts);
}

template <typename Process, typename... Arguments>
double from_first_start(const std::vector<Process>& processes, std::uint32_t starts, Arguments... arguments) {
  std::vector<double> begun;
  begun.reserve(processes.size());
  for (const Process& process : processes) begun.push_back(process.e_value(arguments...));
  return first_start_e_value(begun, starts);
}

}  // namespace

double CanaryLevels::share_of(bool slices) const {
  if (whole_parts == 0 || slice_tests == 0) return (slices ? slice_tests : whole_parts) == 0 ? 0 : 1;
  return 0.5;
}

CanaryLevels canary_levels(const schema::Contract& contract, const CanaryScopes& scopes,
                           std::uint32_t attempt, std::int64_t block_us) {
  constexpr auto kCanary = schema::Stage::canary;
  return {schema::spent_alpha(kCanary, contract.confidence.alpha_harm, attempt),
          schema::spent_alpha(kCanary, contract.confidence.alpha_advance, attempt),
          scopes.whole_parts,
          scopes.slice_tests,
          contract.canary ? contract.canary->min_keys : 0,
          block_us};
}

std::uint32_t prompt_strata(const schema::Contract& contract) {
  return std::min(LatencyStream::kMaxStrata,
                  static_cast<std::uint32_t>(contract.slices.prompt_length_bounds.size()) + 1);
}

double CanaryLevels::harm_needed(const WatchedClause& watched) const {
  const bool slice = !watched.where.empty();
  const double part =
      slice ? 1.0 / slice_tests : static_cast<double>(harm_parts(watched.clause.severity)) / whole_parts;
  return 1 / (alpha_harm * share_of(slice) * part * watched.level_factor());
}

bool Trip::holds_ramp() const {
  if (phase == TripPhase::probation) return true;
  if (phase == TripPhase::on_fallback) return action != schema::Action::route_slice;
  return action >= schema::Action::freeze;
}

double WatchedClause::level_factor() const {
  return std::ldexp(1.0, -static_cast<int>(std::min(rearms, 1000U)));
}

RatioParts ratio_parts(const RatioPlan& plan, double max_ratio) {
  if (!plan.signs || max_ratio != 1) return plan.labels ? RatioParts{0.6, 0.4, 0} : RatioParts{0, 1, 0};
  return plan.labels ? RatioParts{0.6, 0.2, 0.2} : RatioParts{0, 0.3, 0.7};
}

void RateStream::open(std::uint32_t started) {
  const std::size_t count = watched.rearms > 0 ? 1 : std::min(started, starts_);
  const schema::Limits& limits = watched.clause.limits;
  while (limits.max && rate_.size() < count) rate_.emplace_back(*limits.max);
  while (limits.max_ratio && label_.size() < count) label_.emplace_back(*limits.max_ratio);
  while (limits.max_ratio && blocks_.size() < count) blocks_.emplace_back(*limits.max_ratio);
  while (limits.max_ratio == 1.0 && signs_.size() < count) signs_.emplace_back(levels_.score_inflation);
  while (limits.max_delta && difference_.size() < count)
    difference_.emplace_back(*limits.max_delta, levels_.alpha_harm);
}

void RateStream::rearm() {
  ++watched.rearms;
  restart();
}

void RateStream::restart() {
  starts_ = 1;
  rate_.clear();
  label_.clear();
  blocks_.clear();
  signs_.clear();
  difference_.clear();
  open_ = {};
  counts_ = {};
  hours_ = {};
  open(1);
}

void RateStream::observe_key(bool failed) {
  for (FailureRateProcess& process : rate_) process.update(failed);
  ++counts_.keys;
  counts_.failed_keys += static_cast<std::uint64_t>(failed);
}

void RateStream::observe_first(bool candidate, bool failed, double share) {
  ++counts_.all_keys;
  for (RateDifferenceProcess& process : difference_) process.update(candidate, failed, share);
}

void RateStream::observe_failure(bool candidate, double share, double excess) {
  bool evaluable = label_.empty();
  const double weighted = share * watched.clause.limits.max_ratio.value_or(1);
  const double expected = weighted > 0 ? weighted / (weighted + 1 - share) : 0;
  const double weight = 1 / (1 + excess_of_difference(excess, expected));
  for (LabelProcess& process : label_) evaluable = process.update(candidate, share, weight) || evaluable;
  if (!evaluable) {
    ++counts_.skipped;
    return;
  }
  ++counts_.failures;
  counts_.candidate_failures += static_cast<std::uint64_t>(candidate);
  counts_.expected_candidate += expected;
}

void RateStream::observe_at_risk(bool candidate, bool failed, double share, std::int64_t routed_us) {
  if (blocks_.empty() || share <= 0 || 1 - share < kLeastOtherShare) return;
  const std::int64_t index = routed_us / levels_.block_us;
  if (index > open_index_) {
    end_block();
    open_index_ = index;
  }
  ++(candidate ? open_.candidate : open_.incumbent);
  if (failed) ++(candidate ? open_.failed_candidate : open_.failed_incumbent);
}

void RateStream::observe_period(std::uint64_t key, bool keyless, bool failed) {
  if (keyless) return hours_.observe_keyless(failed);
  hours_.observe(key, failed);
}

void RateStream::end_block() {
  for (BlockProcess& process : blocks_) process.add(open_);
  for (SignProcess& process : signs_) process.add(open_);
  open_ = {};
}

double RateStream::e_proof() const {
  return over_starts(rate_, starts_, [](const FailureRateProcess& p) { return p.e_proof(); });
}
double RateStream::e_harm() const {
  return over_starts(rate_, starts_, [](const FailureRateProcess& p) { return p.e_harm(); });
}
double RateStream::e_label() const {
  return from_first_start(label_, starts_);
}
double RateStream::e_blocks(double excess) const {
  return from_first_start(blocks_, starts_, excess);
}
double RateStream::e_signs() const {
  return from_first_start(signs_, starts_);
}
double RateStream::e_delta_proof() const {
  return over_starts(difference_, starts_, [](const RateDifferenceProcess& p) { return p.e_proof(); });
}
double RateStream::e_delta_harm() const {
  return over_starts(difference_, starts_, [](const RateDifferenceProcess& p) { return p.e_harm(); });
}

std::uint64_t RateStream::evidence() const {
  const std::uint64_t compared = difference_.empty() ? 0 : difference_.front().keys();
  return counts_.keys + counts_.failures + compared;
}

std::uint32_t RateStream::tests() const {
  const schema::Limits& limits = watched.clause.limits;
  return static_cast<std::uint32_t>(limits.max.has_value()) +
         static_cast<std::uint32_t>(limits.max_ratio.has_value()) +
         static_cast<std::uint32_t>(limits.max_delta.has_value());
}

bool RateStream::clean() const {
  return e_harm() <= kClearEValue && e_label() <= kClearEValue && e_blocks(0) <= kClearEValue &&
         e_signs() <= kClearEValue && e_delta_harm() <= kClearEValue;
}

void RateStream::verdicts(std::uint64_t seed, const RatioContext& ratios,
                          std::vector<schema::ClauseVerdict>& out) const {
  const schema::Limits& limits = watched.clause.limits;
  if (limits.max) out.push_back(max_verdict(seed));
  if (limits.max_ratio) out.push_back(ratio_verdict(seed, ratios));
  if (limits.max_delta) out.push_back(delta_verdict(seed));
}

}  // namespace driftgate::stages
