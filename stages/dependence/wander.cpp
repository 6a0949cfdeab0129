#include "stages/dependence/wander.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::stages {

void Wander::observe(std::int64_t routed_us, double value, double share) {
  for (auto ended = clock_.advance(routed_us, kUnitUs); ended > 0; --ended) end_unit();
  if (share < kLeastShare) return;
  const double stands_for = 1 / share;
  unit_.value += value * stands_for;
  unit_.size += stands_for;
  unit_.noise += stands_for * stands_for;
  unit_squares_ += value * value * stands_for;
}

void Wander::end_unit() {
  today_.sums.add(unit_);
  today_.squares += unit_squares_;
  unit_ = {};
  unit_squares_ = 0;
}

void Wander::begin_day() {
  before_ = today_;
  today_ = {};
}

Wander::Excess Wander::excess(double allowance) const {
  DyadicSums all = before_.sums;
  all.include(today_.sums);
  const double mean = all.rate();
  const double one = all.size() > 0 ? (today_.squares + before_.squares) / all.size() - mean * mean : 0;
  Excess largest;
  for (std::size_t level = 0; level < all.levels() && one > 0; ++level) {
    const double size = all.mean_size(level), noise = all.mean_noise(level);
    if (size <= 0) continue;
    const double excess = (all.variance(level) - one * noise) / (one * size);
    // The variance of a count is known less well than that of a normal variable where the count is small.
    const double deviation = all.deviation(level) * noise / size * std::sqrt(1 + 0.5 / (one * size));
    largest.deviations = std::max(largest.deviations, excess / deviation);
    if (excess <= largest.excess || excess < allowance * deviation) continue;
    largest.excess = excess;
    largest.window_s = std::ldexp(1e-6 * static_cast<double>(kUnitUs), static_cast<int>(level));
  }
  return largest;
}

double Wander::covered_s() const {
  return 1e-6 * static_cast<double>(kUnitUs) *
         static_cast<double>(today_.sums.units() + before_.sums.units());
}

nlohmann::json Wander::to_json() const {
  const auto day = [](const Day& one) { return nlohmann::json{one.sums.to_json(), one.squares}; };
  return {{"today", day(today_)},
          {"before", day(before_)},
          {"unit", {clock_.index, unit_.value, unit_.size, unit_.noise, unit_squares_}}};
}

Wander Wander::from_json(const nlohmann::json& json) {
  const auto day = [](const nlohmann::json& one) {
    return Day{DyadicSums::from_json(one.at(0)), one.at(1).get<double>()};
  };
  Wander wander;
  wander.today_ = day(json.at("today"));
  wander.before_ = day(json.at("before"));
  const nlohmann::json& unit = json.at("unit");
  unit.at(0).get_to(wander.clock_.index);
  std::size_t i = 1;
  for (double* const number :
       {&wander.unit_.value, &wander.unit_.size, &wander.unit_.noise, &wander.unit_squares_})
    unit.at(i++).get_to(*number);
  return wander;
}

}  // namespace driftgate::stages
