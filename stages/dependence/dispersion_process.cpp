#include "stages/dependence/dispersion_process.hpp"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

namespace driftgate::stages {
namespace {

constexpr double kLargestLog = 600;  ///< e-values stay finite

double log_gamma(double x) {
  using boost::math::policies::promote_double;
  return boost::math::lgamma(x, boost::math::policies::policy<promote_double<false>>());
}

double log_choose(double n, double k) {
  return log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1);
}

}  // namespace

/// ln of the mean over concentrations of Dirichlet-multinomial over hypergeometric; 0 without two failures.
double DispersionProcess::Group::log_likelihood_ratio() const {
  const auto n = static_cast<double>(std::accumulate(requests.begin(), requests.end(), std::uint64_t{0}));
  const auto k = static_cast<double>(std::accumulate(failures.begin(), failures.end(), std::uint64_t{0}));
  if (k < 2) return 0;
  double independent = -log_choose(n, k);
  std::array<double, kConcentrations.size()> clustered{};
  for (std::size_t c = 0; c < clustered.size(); ++c) {
    const double total = kConcentrations[c];
    clustered[c] = log_gamma(k + 1) + log_gamma(total) - log_gamma(total + k);
  }
  for (std::size_t j = 0; j < kBins; ++j) {
    if (failures[j] == 0) continue;
    const auto n_j = static_cast<double>(requests[j]);
    const auto k_j = static_cast<double>(failures[j]);
    independent += log_choose(n_j, k_j);
    for (std::size_t c = 0; c < clustered.size(); ++c) {
      const double part = kConcentrations[c] * n_j / n;
      clustered[c] += log_gamma(k_j + part) - log_gamma(part) - log_gamma(k_j + 1);
    }
  }
  const double largest = *std::ranges::max_element(clustered);
  double sum = 0;
  for (const double one : clustered) sum += std::exp(one - largest);
  return largest + std::log(sum / static_cast<double>(clustered.size())) - independent;
}

void DispersionProcess::Group::end() {
  const double ratio = std::exp(std::min(log_likelihood_ratio(), kLargestLog));
  for (std::size_t s = 0; s < kStakes.size(); ++s) {
    const double wealth = log_wealth[s] + std::log1p(kStakes[s] * (ratio - 1));
    log_wealth[s] = std::clamp(wealth, 0.0, kLargestLog);
  }
  requests.fill(0);
  failures.fill(0);
}

void DispersionProcess::observe(std::int64_t routed_us, bool failed) {
  for (std::size_t w = 0; w < groups_.size(); ++w) {
    Group& group = groups_[w];
    const std::int64_t at = routed_us / kWidthsUs[w];
    const std::int64_t index = at / static_cast<std::int64_t>(kBins);
    const auto bin = static_cast<std::size_t>(at % static_cast<std::int64_t>(kBins));
    if (!begun_ || index > group.index) {
      group.end();
      group.index = index;
      group.bin = bin;
    } else if (index == group.index) {
      group.bin = std::max(group.bin, bin);
    }
    ++group.requests[group.bin];
    group.failures[group.bin] += static_cast<std::uint64_t>(failed);
  }
  begun_ = true;
}

double DispersionProcess::e_value() const {
  double sum = 0;
  for (const Group& group : groups_) {
    const double ratio = std::exp(std::min(group.log_likelihood_ratio(), kLargestLog));
    for (std::size_t s = 0; s < kStakes.size(); ++s) {
      const double wealth = group.log_wealth[s] + std::log1p(kStakes[s] * (ratio - 1));
      sum += std::exp(std::min(wealth, kLargestLog));
    }
  }
  return sum / static_cast<double>(groups_.size() * kStakes.size());
}

nlohmann::json DispersionProcess::to_json() const {
  nlohmann::json groups = nlohmann::json::array();
  for (const Group& group : groups_)
    groups.push_back({group.index, group.bin, group.requests, group.failures, group.log_wealth});
  return {{"begun", begun_}, {"groups", std::move(groups)}};
}

DispersionProcess DispersionProcess::from_json(const nlohmann::json& json) {
  DispersionProcess process;
  json.at("begun").get_to(process.begun_);
  const nlohmann::json& groups = json.at("groups");
  for (std::size_t w = 0; w < process.groups_.size(); ++w) {
    Group& group = process.groups_[w];
    const nlohmann::json& one = groups.at(w);
    one.at(0).get_to(group.index);
    group.bin = std::min(one.at(1).get<std::size_t>(), kBins - 1);
    one.at(2).get_to(group.requests);
    one.at(3).get_to(group.failures);
    one.at(4).get_to(group.log_wealth);
  }
  return process;
}

}  // namespace driftgate::stages
