#include "stages/dependence/count_scores.hpp"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

namespace driftgate::stages {
namespace {

/// P(X < k) + P(X = k)/2 − 1/2 for a Poisson variable X.
double mid_place(double k, double mean) {
  if (mean <= 0) return 0;
  const double below = k > 0 ? boost::math::gamma_q(k, mean) : 0;
  return below + std::exp(k * std::log(mean) - mean - std::lgamma(k + 1)) / 2 - 0.5;
}

}  // namespace

void CountScores::observe(std::int64_t routed_us, bool failed) {
  for (auto ended = clock_.advance(routed_us, kUnitUs); ended > 0; --ended) end_unit();
  unit_failures_ += failed ? 1 : 0;
  ++unit_requests_;
}

void CountScores::end_unit() {
  failures_ += unit_failures_;
  requests_ += unit_requests_;
  if (failures_ >= kLeastFailures)
    today_.add({mid_place(unit_failures_, unit_requests_ * failures_ / requests_), 1, 0});
  unit_failures_ = unit_requests_ = 0;
}

void CountScores::begin_day() {
  before_ = today_;
  today_ = {};
}

double CountScores::inflation(std::int64_t block_us) const {
  std::size_t block = 0;
  while (block + 1 < DyadicSums::kLevels && (kUnitUs << (block + 1)) <= block_us) ++block;
  DyadicSums all = before_;
  all.include(today_);
  return all.inflation(kAllowance, block);
}

nlohmann::json CountScores::to_json() const {
  return {{"today", today_.to_json()},
          {"before", before_.to_json()},
          {"counts", {clock_.index, failures_, requests_, unit_failures_, unit_requests_}}};
}

CountScores CountScores::from_json(const nlohmann::json& json) {
  CountScores scores;
  scores.today_ = DyadicSums::from_json(json.at("today"));
  scores.before_ = DyadicSums::from_json(json.at("before"));
  const nlohmann::json& counts = json.at("counts");
  counts.at(0).get_to(scores.clock_.index);
  std::size_t i = 1;
  for (double* const number :
       {&scores.failures_, &scores.requests_, &scores.unit_failures_, &scores.unit_requests_})
    counts.at(i++).get_to(*number);
  return scores;
}

}  // namespace driftgate::stages
