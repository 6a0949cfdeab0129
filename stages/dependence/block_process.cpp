#include "stages/dependence/block_process.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/dependence/wander.hpp"
#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {
constexpr double kLargestExponent = 600;  ///< e-values stay finite
}

void BlockProcess::add(const BlockCounts& block) {
  if (block.candidate == 0 || block.incumbent == 0) return;
  const auto n_c = static_cast<double>(block.candidate);
  const auto n_i = static_cast<double>(block.incumbent);
  const auto f_c = static_cast<double>(block.failed_candidate);
  const auto f_i = static_cast<double>(block.failed_incumbent);
  const double weight = max_ratio_ * n_c + n_i;
  const double x = (n_i * f_c - max_ratio_ * n_c * f_i) / weight;
  const double q = max_ratio_ * n_c / weight;
  ++blocks_;
  const double before = x - mean_;
  mean_ += before / static_cast<double>(blocks_);
  squares_ += before * (x - mean_);
  independent_ += (f_c + f_i) * q * (1 - q);
  swings_ += (f_c + f_i) * q * (1 - q) * excess_of_difference(1, q);
  candidate_ += n_i * f_c / (n_c + n_i);
  incumbent_ += n_c * f_i / (n_c + n_i);
}

double BlockProcess::e_value(double excess) const {
  if (blocks_ < kLeastBlocks) return 1;
  const auto t = static_cast<double>(blocks_);
  const double variance = std::max(squares_ / (t - 1), (independent_ + excess * swings_) / t);
  const double z = variance > 0 ? t * mean_ / std::sqrt(variance) : 0;
  const double spread = t * kRho2 + 1;
  const double exponent = std::min(kRho2 * z * z / (2 * spread), kLargestExponent);
  return 2 / std::sqrt(spread) * std::exp(exponent) * normal_cdf(z * std::sqrt(kRho2 / spread));
}

std::optional<double> BlockProcess::ratio() const {
  if (incumbent_ <= 0) return std::nullopt;
  return candidate_ / incumbent_;
}

nlohmann::json BlockProcess::to_json() const {
  return {blocks_, mean_, squares_, independent_, candidate_, incumbent_, swings_};
}

BlockProcess BlockProcess::from_json(const nlohmann::json& json, double max_ratio) {
  BlockProcess process(max_ratio);
  json.at(0).get_to(process.blocks_);
  double* const fields[] = {&process.mean_, &process.squares_, &process.independent_, &process.candidate_,
                            &process.incumbent_};
  for (std::size_t i = 0; i < std::size(fields); ++i) json.at(i + 1).get_to(*fields[i]);
  // Earlier versions did not keep it; it is never more than this.
  process.swings_ = json.size() > 6 ? json.at(6).get<double>() : process.independent_ / 2;
  return process;
}

}  // namespace driftgate::stages
