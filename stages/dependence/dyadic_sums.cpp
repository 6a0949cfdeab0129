#include "stages/dependence/dyadic_sums.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::stages {
namespace {

Portion together(const Portion& a, const Portion& b) {
  return {a.value + b.value, a.size + b.size, a.noise + b.noise};
}

}  // namespace

void DyadicSums::Sums::add(const Portion& window) {
  ++windows;
  value += window.value;
  size += window.size;
  noise += window.noise;
  value_value += window.value * window.value;
  value_size += window.value * window.size;
  size_size += window.size * window.size;
}

void DyadicSums::add(const Portion& unit) {
  ++units_;
  sums_.front().add(unit);
  Portion window = unit;
  for (std::size_t level = 0; level + 1 < kLevels; ++level) {
    Newest& newest = newest_[level];
    const Portion two = together(newest.window, window);
    if (newest.any) sums_[level + 1].add(two);
    const bool second = newest.any && !newest.second;
    newest = {window, true, second};
    if (!second) return;
    window = two;
  }
}

void DyadicSums::include(const DyadicSums& other) {
  units_ += other.units_;
  for (std::size_t level = 0; level < kLevels; ++level) {
    Sums& to = sums_[level];
    const Sums& from = other.sums_[level];
    to.windows += from.windows;
    to.value += from.value;
    to.size += from.size;
    to.noise += from.noise;
    to.value_value += from.value_value;
    to.value_size += from.value_size;
    to.size_size += from.size_size;
  }
}

std::size_t DyadicSums::levels() const {
  std::size_t levels = 0;
  while (levels < kLevels &&
         std::ldexp(1.0, static_cast<int>(levels)) <= kLongestShare * static_cast<double>(units_))
    ++levels;
  return levels;
}

double DyadicSums::rate() const {
  return size() > 0 ? value() / size() : 0;
}

double DyadicSums::windows_apart(std::size_t level) const {
  return static_cast<double>(units_) / std::ldexp(1.0, static_cast<int>(level));
}

double DyadicSums::variance(std::size_t level) const {
  const Sums& sums = sums_[level];
  const double apart = windows_apart(level);
  if (sums.windows == 0 || apart <= 1) return 0;
  const double r = rate();
  const double squares = sums.value_value - 2 * r * sums.value_size + r * r * sums.size_size;
  return std::max(0.0, squares) / sums.windows / (1 - 1 / apart);
}

double DyadicSums::mean_size(std::size_t level) const {
  const Sums& sums = sums_[level];
  return sums.windows > 0 ? sums.size / sums.windows : 0;
}

double DyadicSums::mean_noise(std::size_t level) const {
  const Sums& sums = sums_[level];
  return sums.windows > 0 ? sums.noise / sums.windows : 0;
}

double DyadicSums::deviation(std::size_t level) const {
  // Squares of windows that overlap by half have a correlation of 1/4, so that twice as many of them have 3/4
  // of the variance.
  const double squares = level == 0 ? 2 : 1.5;
  return std::sqrt(squares / std::max(1.0, windows_apart(level)));
}

double DyadicSums::excess(std::size_t level, std::size_t from) const {
  const double one = variance(from) * std::ldexp(1.0, static_cast<int>(level - from));
  return one > 0 ? variance(level) / one - 1 : 0;
}

double DyadicSums::inflation(double allowance, std::size_t from) const {
  double largest = 0;
  for (std::size_t level = from + 1; level < levels(); ++level) {
    if (excess(level) > allowance * deviation(level)) largest = std::max(largest, excess(level, from));
  }
  return largest;
}

nlohmann::json DyadicSums::to_json() const {
  nlohmann::json levels = nlohmann::json::array();
  for (std::size_t level = 0; level < kLevels && sums_[level].windows > 0; ++level) {
    const Sums& sums = sums_[level];
    const Newest& newest = newest_[level];
    levels.push_back({sums.windows, sums.value, sums.size, sums.noise, sums.value_value, sums.value_size,
                      sums.size_size, newest.any, newest.second, newest.window.value, newest.window.size,
                      newest.window.noise});
  }
  return {{"units", units_}, {"levels", std::move(levels)}};
}

DyadicSums DyadicSums::from_json(const nlohmann::json& json) {
  DyadicSums read;
  json.at("units").get_to(read.units_);
  const nlohmann::json& levels = json.at("levels");
  for (std::size_t level = 0; level < std::min(kLevels, levels.size()); ++level) {
    const nlohmann::json& one = levels.at(level);
    Sums& sums = read.sums_[level];
    Newest& newest = read.newest_[level];
    double* const numbers[] = {&sums.windows,     &sums.value,      &sums.size,     &sums.noise,
                               &sums.value_value, &sums.value_size, &sums.size_size};
    std::size_t i = 0;
    for (double* const number : numbers) one.at(i++).get_to(*number);
    one.at(i++).get_to(newest.any);
    one.at(i++).get_to(newest.second);
    for (double* const number : {&newest.window.value, &newest.window.size, &newest.window.noise})
      one.at(i++).get_to(*number);
  }
  return read;
}

}  // namespace driftgate::stages
