#include "stages/guard/rate_watch.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace driftgate::stages {

RateWatch::RateWatch(double limit, Events events, std::int64_t mean_time_us, std::int64_t block_us,
                     std::int64_t armed_us)
    : kind_(events),
      mean_time_us_(mean_time_us),
      block_us_(block_us),
      single_(limit, limit > 0 ? event_bets(limit) : std::vector<Bet>{}),
      blocks_(limit, share_bets()),
      newest_us_(armed_us),
      block_newest_us_(armed_us) {}

void RateWatch::observe(bool event, std::int64_t routed_us, bool single) {
  ++seen_;
  events_ += static_cast<std::uint64_t>(event);
  const bool counts = single && kind_ == Events::single_and_blocks;
  if (counts) {
    settle(routed_us);
    single_.observe(event ? 1 : 0, start_mass(newest_us_, routed_us, mean_time_us_), routed_us);
  } else if (single_counts_) {
    forget_single();
  }
  single_counts_ = counts;
  newest_us_ = std::max(newest_us_, routed_us);
  const std::int64_t block = routed_us / block_us_;
  if (block > block_) {
    end_block();
    block_ = block;
  }
  ++block_seen_;
  block_events_ += static_cast<std::uint64_t>(event);
}

void RateWatch::settle(std::int64_t routed_us) {
  const std::int64_t period = routed_us / kSuddenUs;
  if (period <= period_) return;
  const double sum = std::min(single_.sum(), EDetector::kMostSum);
  settled_ = period == period_ + 1 ? waiting_ : sum;
  waiting_ = sum;
  period_ = period;
}

void RateWatch::end_block() {
  if (block_seen_ == 0) return;
  const std::int64_t end_us = (block_ + 1) * block_us_;
  const double share = static_cast<double>(block_events_) / static_cast<double>(block_seen_);
  blocks_.observe(share, start_mass(block_newest_us_, end_us, mean_time_us_), block_ * block_us_);
  block_newest_us_ = std::max(block_newest_us_, end_us);
  block_seen_ = 0;
  block_events_ = 0;
}

void RateWatch::forget_single() {
  single_.restart();
  single_counts_ = false;
  waiting_ = settled_ = 0;
}

double RateWatch::single_part() const {
  return single_counts_ ? kSinglePart : 0;
}

double RateWatch::block_part() const {
  return kind_ == Events::blocks ? 1 : 1 - kSinglePart;
}

double RateWatch::single_value() const {
  return single_counts_ ? std::min(single_.sum(), kMostSudden * settled_) : 0;
}

double RateWatch::block_value() const {
  return blocks_.sum();
}

double RateWatch::value() const {
  const double single = single_counts_ ? single_part() * single_value() : 0;
  return single + block_part() * block_value();
}

EDetector::Change RateWatch::change() const {
  return single_counts_ ? single_.change() : blocks_.change();
}

nlohmann::json RateWatch::to_json() const {
  return {{"single", single_.to_json()},
          {"blocks", blocks_.to_json()},
          {"single_counts", single_counts_},
          {"newest_us", newest_us_},
          {"block_newest_us", block_newest_us_},
          {"block", {block_, block_seen_, block_events_}},
          {"settled", {period_, waiting_, settled_}},
          {"counts", {seen_, events_}}};
}

void RateWatch::restore(const nlohmann::json& json) {
  single_.restore(json.at("single"));
  blocks_.restore(json.at("blocks"));
  json.at("single_counts").get_to(single_counts_);
  json.at("newest_us").get_to(newest_us_);
  json.at("block_newest_us").get_to(block_newest_us_);
  json.at("block").at(0).get_to(block_);
  json.at("block").at(1).get_to(block_seen_);
  json.at("block").at(2).get_to(block_events_);
  json.at("settled").at(0).get_to(period_);
  json.at("settled").at(1).get_to(waiting_);
  json.at("settled").at(2).get_to(settled_);
  json.at("counts").at(0).get_to(seen_);
  json.at("counts").at(1).get_to(events_);
}

}  // namespace driftgate::stages
