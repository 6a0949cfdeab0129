#include "stages/dependence/failure_history.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace driftgate::stages {
namespace {

/// A stall has ended when this many more requests were answered than failed since it was at its worst.
constexpr std::int64_t kStallEnds = 10;
constexpr std::uint64_t kLeastKeys = 3;
constexpr double kSecond = 1e-6;

}  // namespace

void FailureHistory::observe(std::uint64_t key, bool keyless, bool failed, std::int64_t routed_us,
                             double share) {
  if (newest_us_ != 0)
    today_.covered_us += std::clamp<std::int64_t>(routed_us - newest_us_, 0, kLongestGapUs);
  newest_us_ = std::max(newest_us_, routed_us);
  if (today_.covered_us >= kDayUs) {
    before_ = today_;
    today_ = {};
    wander_.begin_day();
    scores_.begin_day();
    failed_keys_.clear();
  }
  const bool known = !keyless && failed_keys_.contains(key);
  const bool first = failed && !known;
  follow_stall(failed, first, routed_us);
  if (known) return;
  ++today_.requests;
  today_.failures += static_cast<std::uint64_t>(first);
  process_.observe(routed_us, first);
  wander_.observe(routed_us, first ? 1 : 0, share);
  scores_.observe(routed_us, first);
  if (!first) return;
  if (!keyless && failed_keys_.size() < kMaxFailedKeys) failed_keys_.insert(key);
  const double e_value = process_.e_value();
  today_.dispersion = std::max(today_.dispersion, e_value);
  if (e_value < kShown) return;
  today_.dependent = true;
  process_ = {};  // what comes later must show it anew
}

double FailureHistory::dispersion() const {
  return std::max({today_.dispersion, before_.dispersion, process_.e_value()});
}

void FailureHistory::follow_stall(bool failed, bool first_of_key, std::int64_t routed_us) {
  if (run_.height == 0 && !failed) return;
  if (run_.height == 0) run_ = {routed_us, routed_us, 0, 0, 0};
  run_.height += failed ? 1 : -1;
  run_.keys += static_cast<std::uint64_t>(first_of_key);
  if (run_.height > run_.top) {
    run_.top = run_.height;
    run_.top_us = routed_us;
    if (run_.keys >= kLeastKeys)
      today_.longest_stall_us = std::max(today_.longest_stall_us, run_.top_us - run_.start_us);
  }
  if (run_.top - run_.height >= kStallEnds) run_ = {};
}

double FailureHistory::longest_stall_s() const {
  return kSecond * static_cast<double>(std::max(today_.longest_stall_us, before_.longest_stall_us));
}

double FailureHistory::covered_s() const {
  return kSecond * static_cast<double>(today_.covered_us + before_.covered_us);
}

nlohmann::json FailureHistory::to_json() const {
  const auto day = [](const Day& one) {
    return nlohmann::json{one.covered_us, one.longest_stall_us, one.requests,
                          one.failures,   one.dependent,        one.dispersion};
  };
  std::vector<std::uint64_t> keys(failed_keys_.begin(), failed_keys_.end());
  std::ranges::sort(keys);
  return {{"process", process_.to_json()},
          {"wander", wander_.to_json()},
          {"scores", scores_.to_json()},
          {"today", day(today_)},
          {"before", day(before_)},
          {"run", {run_.start_us, run_.top_us, run_.height, run_.top, run_.keys}},
          {"newest_us", newest_us_},
          {"failed_keys", std::move(keys)}};
}

FailureHistory FailureHistory::from_json(const nlohmann::json& json) {
  FailureHistory history;
  history.process_ = DispersionProcess::from_json(json.at("process"));
  // An earlier version did not see how the rate wanders: that begins where its record is read.
  if (json.contains("wander")) {
    history.wander_ = Wander::from_json(json.at("wander"));
    history.scores_ = CountScores::from_json(json.at("scores"));
  }
  const auto read_day = [](const nlohmann::json& one, Day& day) {
    one.at(0).get_to(day.covered_us);
    one.at(1).get_to(day.longest_stall_us);
    one.at(2).get_to(day.requests);
    one.at(3).get_to(day.failures);
    one.at(4).get_to(day.dependent);
    one.at(5).get_to(day.dispersion);
  };
  read_day(json.at("today"), history.today_);
  read_day(json.at("before"), history.before_);
  const nlohmann::json& run = json.at("run");
  run.at(0).get_to(history.run_.start_us);
  run.at(1).get_to(history.run_.top_us);
  run.at(2).get_to(history.run_.height);
  run.at(3).get_to(history.run_.top);
  run.at(4).get_to(history.run_.keys);
  json.at("newest_us").get_to(history.newest_us_);
  json.at("failed_keys").get_to(history.failed_keys_);
  return history;
}

}  // namespace driftgate::stages
