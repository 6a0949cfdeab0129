#include "stages/statistics/rate_difference_process.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace driftgate::stages {

bool RateDifferenceProcess::update(bool candidate, bool failed, double share) {
  if (share < kLeastShare || 1 - share < kLeastOtherShare) return false;
  const double most = 1 / share;
  const double least = -1 / (1 - share);
  const double value = failed ? (candidate ? most : least) : 0.0;
  const double x = (value - least) / (most - least);
  const double m = std::clamp((max_delta_ - least) / (most - least), 0.0, 1.0);
  sum_ += value;
  harm_.update(x, m);
  proof_.update(1 - x, 1 - m);
  return true;
}

double RateDifferenceProcess::estimate() const {
  return keys() == 0 ? 0 : sum_ / static_cast<double>(keys());
}

nlohmann::json RateDifferenceProcess::to_json() const {
  return {{"sum", sum_}, {"proof", proof_.to_json()}, {"harm", harm_.to_json()}};
}

RateDifferenceProcess RateDifferenceProcess::from_json(const nlohmann::json& json, double max_delta,
                                                       double alpha) {
  RateDifferenceProcess process(max_delta, alpha);
  json.at("sum").get_to(process.sum_);
  process.proof_ = BettingMartingale::from_json(json.at("proof"), alpha);
  process.harm_ = BettingMartingale::from_json(json.at("harm"), alpha);
  return process;
}

}  // namespace driftgate::stages
