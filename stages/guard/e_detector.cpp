#include "stages/guard/e_detector.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

namespace driftgate::stages {
namespace {

constexpr double kLargestStake = 0.99;
constexpr double kLeastRise = 1.25, kWeightRatio = 0.5;
constexpr double kFirstShareStake = 0.95;
constexpr int kShareBets = 9;
/// C_k stays finite, also when nobody acts on an alarm.
constexpr double kMostLargest = 1e200;

void normalise(std::vector<Bet>& bets) {
  double sum = 0;
  for (const Bet& bet : bets) sum += bet.weight;
  for (Bet& bet : bets) bet.weight /= sum;
}

}  // namespace

double start_mass(std::int64_t before_us, std::int64_t now_us, std::int64_t mean_time_us) {
  const std::int64_t elapsed = now_us <= before_us ? 0 : std::min(now_us - before_us, kLongestPauseUs);
  return static_cast<double>(elapsed) / static_cast<double>(mean_time_us);
}

std::vector<Bet> event_bets(double limit) {
  std::vector<Bet> bets;
  double rise = kLeastRise;
  for (int k = 0; rise * limit < 1; ++k, rise *= std::numbers::sqrt2)
    bets.push_back(
        {std::min((rise - 1) * limit / (1 - limit), kLargestStake), std::pow(kWeightRatio, std::abs(k - 1))});
  if (bets.empty()) bets.push_back({kLargestStake, 1});
  normalise(bets);
  return bets;
}

std::vector<Bet> share_bets() {
  std::vector<Bet> bets;
  double stake = kFirstShareStake;
  for (int k = 0; k < kShareBets; ++k, stake /= 2) bets.push_back({stake, 1});
  normalise(bets);
  return bets;
}

EDetector::EDetector(double limit, const std::vector<Bet>& bets) : limit_(limit) {
  for (const Bet& bet : bets) processes_.push_back({.bet = bet});
}

void EDetector::observe(double value, double start, std::int64_t at_us) {
  const double x = std::clamp(value, 0.0, 1.0);
  ++seen_;
  total_ += x;
  if (limit_ <= 0) {
    impossible_ = impossible_ || x > 0;
    return;
  }
  for (Process& process : processes_) {
    const double factor = 1 + process.bet.stake * (x / limit_ - 1);
    process.sum = std::min(factor * (process.sum + start), kMostSum);
    if (process.largest <= 1) {
      process.since_us = at_us;
      process.seen = 0;
      process.total = 0;
    }
    process.largest = std::min(factor * std::max(process.largest, 1.0), kMostLargest);
    ++process.seen;
    process.total += x;
  }
}

void EDetector::restart() {
  for (Process& process : processes_) process = {.bet = process.bet};
  seen_ = 0;
  total_ = 0;
  impossible_ = false;
}

double EDetector::mean() const {
  return seen_ == 0 ? 0 : total_ / static_cast<double>(seen_);
}

double EDetector::sum() const {
  if (impossible_) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const Process& process : processes_) sum += process.bet.weight * process.sum;
  return sum;
}

double EDetector::largest() const {
  if (impossible_) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const Process& process : processes_) sum += process.bet.weight * process.largest;
  return sum;
}

const EDetector::Process* EDetector::leading() const {
  const auto found = std::ranges::max_element(
      processes_, {}, [](const Process& process) { return process.bet.weight * process.largest; });
  return found == processes_.end() ? nullptr : &*found;
}

EDetector::Change EDetector::change() const {
  const Process* const process = leading();
  if (process == nullptr || process->seen == 0) return {};
  return {process->since_us, process->seen, process->total / static_cast<double>(process->seen)};
}

nlohmann::json EDetector::to_json() const {
  nlohmann::json processes = nlohmann::json::array();
  for (const Process& process : processes_)
    processes.push_back({process.sum, process.largest, process.since_us, process.seen, process.total});
  return {
      {"processes", std::move(processes)}, {"seen", seen_}, {"total", total_}, {"impossible", impossible_}};
}

void EDetector::restore(const nlohmann::json& json) {
  const nlohmann::json& processes = json.at("processes");
  for (std::size_t k = 0; k < processes_.size(); ++k) {
    const nlohmann::json& one = processes.at(k);
    one.at(0).get_to(processes_[k].sum);
    one.at(1).get_to(processes_[k].largest);
    one.at(2).get_to(processes_[k].since_us);
    one.at(3).get_to(processes_[k].seen);
    one.at(4).get_to(processes_[k].total);
  }
  json.at("seen").get_to(seen_);
  json.at("total").get_to(total_);
  json.at("impossible").get_to(impossible_);
}

}  // namespace driftgate::stages
