#include "stages/statistics/split_guard.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {
constexpr std::uint32_t kWholeBp = 10'000;
}

void SplitGuard::update(bool candidate, std::uint32_t share_bp) {
  if (share_bp == 0 || share_bp >= kWholeBp) {
    impossible_ = impossible_ || candidate == (share_bp == 0);
    return;
  }
  if (by_share_.size() >= kMaxShares && !by_share_.contains(share_bp)) return;
  Count& count = by_share_[share_bp];
  ++count.all;
  count.candidate += static_cast<std::uint64_t>(candidate);
}

double SplitGuard::e_value() const {
  if (impossible_) return std::numeric_limits<double>::infinity();
  double log_e = 0;
  for (const auto& [share_bp, count] : by_share_) {
    const double share = static_cast<double>(share_bp) / kWholeBp;
    const auto ones = static_cast<double>(count.candidate);
    const auto zeros = static_cast<double>(count.all - count.candidate);
    log_e += log_beta(0.5 + ones, 0.5 + zeros) - log_beta(0.5, 0.5);
    log_e -= ones * std::log(share) + zeros * std::log1p(-share);
  }
  return std::exp(log_e);
}

std::uint64_t SplitGuard::keys() const {
  std::uint64_t keys = 0;
  for (const auto& [share, count] : by_share_) keys += count.all;
  return keys;
}

nlohmann::json SplitGuard::to_json() const {
  nlohmann::json shares = nlohmann::json::array();
  for (const auto& [share, count] : by_share_) shares.push_back({share, count.candidate, count.all});
  return {{"shares", std::move(shares)}, {"impossible", impossible_}};
}

SplitGuard SplitGuard::from_json(const nlohmann::json& json) {
  SplitGuard guard;
  json.at("impossible").get_to(guard.impossible_);
  for (const auto& entry : json.at("shares")) {
    guard.by_share_[entry.at(0).get<std::uint32_t>()] = {entry.at(1).get<std::uint64_t>(),
                                                         entry.at(2).get<std::uint64_t>()};
  }
  return guard;
}

}  // namespace driftgate::stages
