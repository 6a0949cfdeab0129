#include "stages/statistics/betting_martingale.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace driftgate::stages {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A share of [0,1] in BettingSequence.
double grid_point(std::size_t index) {
  return static_cast<double>(index) / static_cast<double>(BettingSequence::kIntervals);
}

/// ln(1 + min(λ, c/m)·(x − m)); with m = 0 any positive value is worth everything.
double log_gain(double bet, double x, double m) {
  if (m <= 0) return x > 0 ? kInfinity : 0.0;
  return std::log1p(std::min(bet, BettingMartingale::kCap / m) * (x - m));
}

}  // namespace

double PredictableBet::next() const {
  const auto t = static_cast<double>(count_ + 1);
  const double variance = (0.25 + squares_) / t;
  return std::sqrt(2 * std::log(1 / alpha_) / (variance * t * std::log1p(t)));
}

void PredictableBet::update(double x) {
  ++count_;
  sum_ += x;
  const double mean = (0.5 + sum_) / static_cast<double>(count_ + 1);
  squares_ += (x - mean) * (x - mean);
}

double PredictableBet::mean() const {
  return count_ == 0 ? 0.5 : sum_ / static_cast<double>(count_);
}

nlohmann::json PredictableBet::to_json() const {
  return {count_, sum_, squares_};
}

PredictableBet PredictableBet::from_json(const nlohmann::json& json, double alpha) {
  PredictableBet bet(alpha);
  json.at(0).get_to(bet.count_);
  json.at(1).get_to(bet.sum_);
  json.at(2).get_to(bet.squares_);
  return bet;
}

void BettingMartingale::update(double x, double m) {
  const double gain = log_gain(bet_.next(), x, m);
  certain_ = certain_ || gain == kInfinity;
  if (gain < kInfinity) log_wealth_ += gain;
  bet_.update(x);
}

double BettingMartingale::e_value() const {
  return certain_ ? kInfinity : std::exp(log_wealth_);
}

nlohmann::json BettingMartingale::to_json() const {
  return {{"bet", bet_.to_json()}, {"log_wealth", log_wealth_}, {"certain", certain_}};
}

BettingMartingale BettingMartingale::from_json(const nlohmann::json& json, double alpha) {
  BettingMartingale process(alpha);
  process.bet_ = PredictableBet::from_json(json.at("bet"), alpha);
  json.at("log_wealth").get_to(process.log_wealth_);
  json.at("certain").get_to(process.certain_);
  return process;
}

void NonInferiorityProcess::update(double difference) {
  const double d = std::clamp(difference, -1.0, 1.0);
  sum_ += d;
  proof_.update((1 + d) / 2, (1 - margin_) / 2);
  harm_.update((1 - d) / 2, (1 + margin_) / 2);
}

double NonInferiorityProcess::mean() const {
  return count() == 0 ? 0 : sum_ / static_cast<double>(count());
}

nlohmann::json NonInferiorityProcess::to_json() const {
  return {{"sum", sum_}, {"proof", proof_.to_json()}, {"harm", harm_.to_json()}};
}

NonInferiorityProcess NonInferiorityProcess::from_json(const nlohmann::json& json, double margin,
                                                       double alpha) {
  NonInferiorityProcess process(margin, alpha);
  json.at("sum").get_to(process.sum_);
  process.proof_ = BettingMartingale::from_json(json.at("proof"), alpha);
  process.harm_ = BettingMartingale::from_json(json.at("harm"), alpha);
  return process;
}

BettingSequence::BettingSequence(double alpha)
    : alpha_(alpha), bet_(alpha), above_(kIntervals + 1), below_(kIntervals + 1) {}

void BettingSequence::update(double x) {
  const double bet = bet_.next();
  for (std::size_t i = 0; i <= kIntervals; ++i) {
    const double m = grid_point(i);
    above_[i] += log_gain(bet, x, m);
    below_[i] += log_gain(bet, 1 - x, 1 - m);
  }
  bet_.update(x);
}

QuantileLimits BettingSequence::limits() const {
  QuantileLimits limits{bet_.mean(), 0, 1};
  const double needed = std::log(1 / alpha_);
  for (std::size_t i = 0; i <= kIntervals && above_[i] >= needed; ++i) limits.lower = grid_point(i);
  for (std::size_t i = kIntervals + 1; i > 0 && below_[i - 1] >= needed; --i)
    limits.upper = grid_point(i - 1);
  return limits;
}

nlohmann::json BettingSequence::to_json() const {
  // Capital that is infinite has no JSON number; a very large one decides the same.
  const auto finite = [](std::vector<double> values) {
    for (double& value : values) value = std::min(value, 1e300);
    return values;
  };
  return {{"bet", bet_.to_json()}, {"above", finite(above_)}, {"below", finite(below_)}};
}

BettingSequence BettingSequence::from_json(const nlohmann::json& json, double alpha) {
  BettingSequence sequence(alpha);
  sequence.bet_ = PredictableBet::from_json(json.at("bet"), alpha);
  const auto read = [&](const char* name, std::vector<double>& values) {
    const auto& list = json.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) list.at(i).get_to(values[i]);
  };
  read("above", sequence.above_);
  read("below", sequence.below_);
  return sequence;
}

}  // namespace driftgate::stages
