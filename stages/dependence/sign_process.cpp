#include "stages/dependence/sign_process.hpp"

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

constexpr double kLargestExponent = 600;  ///< e-values stay finite
constexpr double kLeastTail = 1e-300;

/// P(Bin(n, p) < k) and P(Bin(n, p) > k).
struct Sides {
  double below = 0, above = 0;
};

Sides sides(std::uint64_t k, std::uint64_t n, double p) {
  return {k == 0 ? 0 : binomial_at_most(k - 1, n, p), k >= n ? 0 : binomial_at_least(k + 1, n, p)};
}

}  // namespace

void SignProcess::add(const BlockCounts& block) {
  if (block.candidate == 0 || block.incumbent == 0) return;
  const double kept = static_cast<double>(std::min(block.candidate, block.incumbent)) /
                      static_cast<double>(std::max(block.candidate, block.incumbent));
  const bool thins_incumbent = block.incumbent >= block.candidate;
  const Sides thinned = thins_incumbent ? sides(block.failed_candidate, block.failed_incumbent, kept)
                                        : sides(block.failed_incumbent, block.failed_candidate, kept);
  const double up = thins_incumbent ? thinned.below : thinned.above;
  const double down = thins_incumbent ? thinned.above : thinned.below;
  const double smaller = static_cast<double>(std::min(block.candidate, block.incumbent)) /
                         static_cast<double>(block.candidate + block.incumbent);
  const double counts = 1 / (1 + smaller * inflation_);
  up_ += up;
  down_ += down;
  counted_up_ += counts * up;
  counted_down_ += counts * down;
  signs_.add({up - down, 1, 0});
}

double SignProcess::e_value() const {
  if (signs_.units() < kLeastBlocks) return 1;
  const double counted = counted_up_ + counted_down_, at_most = (up_ + down_) / (1 + own_inflation());
  const double rest = counted > at_most ? at_most / counted : 1;
  const double up = rest * counted_up_, down = rest * counted_down_;
  // 2·2^{up + down}·∫ p^up (1 − p)^down dp over (1/2, 1)
  const double tail = boost::math::ibetac(up + 1, down + 1, 0.5);
  const double exponent =
      (up + down + 1) * std::numbers::ln2 + log_beta(up + 1, down + 1) + std::log(std::max(tail, kLeastTail));
  return std::exp(std::min(exponent, kLargestExponent));
}

nlohmann::json SignProcess::to_json() const {
  return {up_, down_, signs_.to_json(), counted_up_, counted_down_};
}

SignProcess SignProcess::from_json(const nlohmann::json& json, double inflation) {
  SignProcess process(inflation);
  json.at(0).get_to(process.up_);
  json.at(1).get_to(process.down_);
  process.signs_ = DyadicSums::from_json(json.at(2));
  // Earlier versions let all blocks count alike.
  const bool counted = json.size() > 3;
  process.counted_up_ = counted ? json.at(3).get<double>() : process.up_ / (1 + inflation);
  process.counted_down_ = counted ? json.at(4).get<double>() : process.down_ / (1 + inflation);
  return process;
}

}  // namespace driftgate::stages
