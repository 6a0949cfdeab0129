#include "stages/canary/repeated_keys.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

constexpr std::uint32_t kMostHalvings = 63;
constexpr std::uint64_t kTracked = 0x747261636b656421;  ///< so that its hash is one of its own
/// So many pairs that agree fully count beside those that were seen.
constexpr double kDoubt = 20;

}  // namespace

bool RepeatedKeys::is_left_out(std::uint64_t key) const {
  return (mix64(key ^ kTracked) & ((std::uint64_t{1} << halvings_) - 1)) != 0;
}

void RepeatedKeys::observe(std::uint64_t key, std::int32_t bin) {
  if (is_left_out(key)) return;
  Key& known = keys_[key];
  if (known.values > 0) {
    ++lower_of_pairs_[std::min(bin, known.last)];
    ++pairs_;
    const double before = known.last, now = bin;
    sum_ += before + now;
    squares_ += before * before + now * now;
    products_ += before * now;
  }
  known.last = bin;
  ++known.values;
  while (keys_.size() > kMostTracked && halvings_ < kMostHalvings) {
    ++halvings_;
    std::erase_if(keys_, [this](const auto& one) { return is_left_out(one.first); });
  }
}

double RepeatedKeys::inflation(double correlation) const {
  // Of the keys that are tracked, and of the same part of the values without a key.
  double values = std::ldexp(static_cast<double>(keyless_), -static_cast<int>(halvings_)), squares = values;
  for (const auto& [key, known] : keys_) {
    values += known.values;
    squares += static_cast<double>(known.values) * known.values;
  }
  if (values <= 0) return 1;
  const double doubtful = (pairs_ * std::clamp(correlation, 0.0, 1.0) + kDoubt) / (pairs_ + kDoubt);
  return 1 + (squares / values - 1) * doubtful;
}

double RepeatedKeys::inflation_of_share(std::int32_t bin, double share) const {
  double both = 0;
  for (auto at = lower_of_pairs_.upper_bound(bin); at != lower_of_pairs_.end(); ++at)
    both += static_cast<double>(at->second);
  const double variance = share * (1 - share);
  return inflation(pairs_ > 0 && variance > 0 ? (both / pairs_ - share * share) / variance : 1);
}

double RepeatedKeys::inflation_of_mean() const {
  if (pairs_ <= 0) return inflation(1);
  const double mean = sum_ / (2 * pairs_);
  const double variance = squares_ / (2 * pairs_) - mean * mean;
  return inflation(variance > 0 ? (products_ / pairs_ - mean * mean) / variance : 1);
}

nlohmann::json RepeatedKeys::to_json() const {
  std::vector<std::pair<std::uint64_t, Key>> sorted(keys_.begin(), keys_.end());
  std::ranges::sort(sorted, {}, &std::pair<std::uint64_t, Key>::first);
  nlohmann::json keys = nlohmann::json::array(), pairs = nlohmann::json::array();
  for (const auto& [key, known] : sorted) keys.push_back({key, known.last, known.values});
  for (const auto& [bin, count] : lower_of_pairs_) pairs.push_back({bin, count});
  return {std::move(keys), halvings_, std::move(pairs), pairs_, sum_, squares_, products_, keyless_};
}

RepeatedKeys RepeatedKeys::from_json(const nlohmann::json& json) {
  RepeatedKeys repeated;
  json.at(1).get_to(repeated.halvings_);
  repeated.halvings_ = std::min(repeated.halvings_, kMostHalvings);
  for (const auto& one : json.at(0))
    repeated.keys_[one.at(0).get<std::uint64_t>()] = {one.at(1).get<std::int32_t>(),
                                                      one.at(2).get<std::uint32_t>()};
  for (const auto& one : json.at(2))
    repeated.lower_of_pairs_[one.at(0).get<std::int32_t>()] = one.at(1).get<std::uint64_t>();
  json.at(3).get_to(repeated.pairs_);
  json.at(4).get_to(repeated.sum_);
  json.at(5).get_to(repeated.squares_);
  json.at(6).get_to(repeated.products_);
  json.at(7).get_to(repeated.keyless_);
  return repeated;
}

}  // namespace driftgate::stages
