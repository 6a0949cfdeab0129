#include "stages/statistics/label_process.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::stages {
namespace {

double log_label(bool candidate, double share, double ratio) {
  const double weighted = share * ratio;
  return std::log((candidate ? weighted : 1 - share) / (weighted + 1 - share));
}

}  // namespace

bool LabelProcess::update(bool candidate, double share, double weight) {
  if (share <= 0 || 1 - share < kLeastOtherShare) return false;
  const double null = log_label(candidate, share, max_ratio_);
  for (std::size_t k = 0; k < kAlternatives; ++k) {
    const double power = static_cast<double>(k + 1) / static_cast<double>(kAlternatives);
    log_wealth_[k] += weight * (log_label(candidate, share, max_ratio_ * std::pow(16.0, power)) - null);
  }
  ++failures_;
  candidate_failures_ += static_cast<std::uint64_t>(candidate);
  return true;
}

double LabelProcess::e_value() const {
  double sum = 0;
  for (const double wealth : log_wealth_) sum += std::exp(wealth);
  return sum / static_cast<double>(kAlternatives);
}

nlohmann::json LabelProcess::to_json() const {
  return {{"failures", failures_}, {"candidate_failures", candidate_failures_}, {"log_wealth", log_wealth_}};
}

LabelProcess LabelProcess::from_json(const nlohmann::json& json, double max_ratio) {
  LabelProcess process(max_ratio);
  json.at("failures").get_to(process.failures_);
  json.at("candidate_failures").get_to(process.candidate_failures_);
  json.at("log_wealth").get_to(process.log_wealth_);
  return process;
}

}  // namespace driftgate::stages
