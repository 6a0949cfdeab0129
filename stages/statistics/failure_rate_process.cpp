#include "stages/statistics/failure_rate_process.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace driftgate::stages {
namespace {

constexpr std::array<double, 2> kCaps{0.5, 0.99};
/// The harm bets begin as if 1/max keys had failed at this multiple of max, and forget it as data come.
constexpr double kImaginedHarm = 2.0;

double mixture(const std::array<double, 2>& log_wealth) {
  return (std::exp(log_wealth[0]) + std::exp(log_wealth[1])) / 2;
}

}  // namespace

void FailureRateProcess::update(bool failed) {
  if (max_ <= 0) {
    impossible_ = impossible_ || failed;
  } else if (max_ < 1) {
    const auto n = static_cast<double>(keys_);
    const auto k = static_cast<double>(failures_);
    const double variance = max_ * (1 - max_);
    const double x = failed ? 1 : 0;
    // Kelly's bet at the rate seen so far; none seen means the whole cap.
    const double seen = keys_ == 0 ? 0 : k / n;
    const double proof_bet = std::max(0.0, (max_ - seen) / variance);
    const double prior = 1 / max_;
    const double feared = (kImaginedHarm * max_ * prior + k) / (prior + n);
    const double harm_bet = std::max(0.0, (feared - max_) / variance);
    for (std::size_t i = 0; i < kCaps.size(); ++i) {
      proof_[i] += std::log1p(std::min(proof_bet, kCaps[i] / (1 - max_)) * (max_ - x));
      harm_[i] += std::log1p(std::min(harm_bet, kCaps[i] / max_) * (x - max_));
    }
  }
  ++keys_;
  failures_ += static_cast<std::uint64_t>(failed);
}

double FailureRateProcess::e_proof() const {
  return mixture(proof_);
}

double FailureRateProcess::e_harm() const {
  return impossible_ ? std::numeric_limits<double>::infinity() : mixture(harm_);
}

nlohmann::json FailureRateProcess::to_json() const {
  return {{"keys", keys_},
          {"failures", failures_},
          {"proof", proof_},
          {"harm", harm_},
          {"impossible", impossible_}};
}

FailureRateProcess FailureRateProcess::from_json(const nlohmann::json& json, double max) {
  FailureRateProcess process(max);
  json.at("keys").get_to(process.keys_);
  json.at("failures").get_to(process.failures_);
  json.at("proof").get_to(process.proof_);
  json.at("harm").get_to(process.harm_);
  json.at("impossible").get_to(process.impossible_);
  return process;
}

std::uint64_t keys_to_advance(double max, double alpha, std::uint32_t starts) {
  constexpr std::uint64_t kMostKeys = 10'000'000;
  if (max <= 0) return std::numeric_limits<std::uint64_t>::max();
  const double others = static_cast<double>(std::max(1U, starts)) - 1;
  FailureRateProcess process(max);
  while ((process.e_proof() + others) / (others + 1) < 1 / alpha && process.keys() < kMostKeys)
    process.update(false);
  return process.keys();
}

}  // namespace driftgate::stages
