#include "stages/statistics/paired.hpp"

#include <cmath>
#include <map>

#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

constexpr std::uint64_t kFewDiscordant = 25;

struct Counts {
  std::uint64_t n = 0, only_train = 0, only_inf = 0;
};

double exact_lower(const Counts& k, double alpha) {
  return clopper_pearson_lower(k.only_inf, k.n, alpha / 2) -
         clopper_pearson_upper(k.only_train, k.n, alpha / 2);
}
double exact_upper(const Counts& k, double alpha) {
  return clopper_pearson_upper(k.only_inf, k.n, alpha / 2) -
         clopper_pearson_lower(k.only_train, k.n, alpha / 2);
}

void decide_exact(MeanTest& test, const Counts& k, double margin, double alpha) {
  test.method = "difference of Clopper-Pearson limits";
  test.lower = exact_lower(k, alpha);
  test.upper = exact_upper(k, alpha);
  test.p_high = smallest_level([&](double a) { return exact_lower(k, a) > -margin; });
  test.p_low = smallest_level([&](double a) { return exact_upper(k, a) < -margin; });
  test.details["harm_p"] = smallest_level([&](double a) { return exact_upper(k, a) < 0; });
}

void decide_z(MeanTest& test, const Counts& k, double margin, double alpha) {
  test.method = "paired z, half a pair added to each side";
  test.approximate = true;
  const double n = static_cast<double>(k.n) + 2;
  const double b = static_cast<double>(k.only_train) + 0.5;
  const double c = static_cast<double>(k.only_inf) + 0.5;
  const double delta = (c - b) / n;
  const double error = std::sqrt(b + c - (c - b) * (c - b) / n) / n;
  const double reach = normal_quantile(1 - alpha) * error;
  test.lower = delta - reach;
  test.upper = delta + reach;
  test.p_low = normal_cdf((delta + margin) / error);
  test.p_high = 1 - test.p_low;
  test.details["harm_p"] = normal_cdf(delta / error);
}

}  // namespace

MeanTest paired_outcomes(std::span<const PairedOutcome> outcomes, double margin, double alpha,
                         std::uint64_t seed) {
  Counts k;
  std::map<std::uint64_t, ClusterSum> clusters;
  for (const PairedOutcome& o : outcomes) {
    ++k.n;
    k.only_train += static_cast<std::uint64_t>(o.train && !o.inf);
    k.only_inf += static_cast<std::uint64_t>(o.inf && !o.train);
    ClusterSum& cluster = clusters[o.cluster];
    cluster.n += 1;
    cluster.sum += static_cast<double>(o.inf) - static_cast<double>(o.train);
  }
  MeanTest test;
  const bool shared = clusters.size() < k.n;
  if (shared) {
    std::vector<ClusterSum> sums;
    for (const auto& [id, sum] : clusters) sums.push_back(sum);
    count_once(sums);
    constexpr ValueRange kDifferences{-1, 1, 1};
    test = betting_mean(sums, -margin, kDifferences, alpha, seed);
    test.details["harm_p"] = betting_mean(sums, 0, kDifferences, alpha, seed).p_low;
    test.details.erase("least_clusters");  // of the other direction
  }
  test.n = k.n;
  test.clusters = clusters.size();
  if (k.n == 0) {
    test.undecidable = "no sequence has an outcome by both kernels";
    return test;
  }
  if (!shared) {
    test.estimate =
        (static_cast<double>(k.only_inf) - static_cast<double>(k.only_train)) / static_cast<double>(k.n);
  }
  if (!shared && k.only_train + k.only_inf < kFewDiscordant) {
    decide_exact(test, k, margin, alpha);
  } else if (!shared) {
    decide_z(test, k, margin, alpha);
  }
  test.details["b"] = static_cast<double>(k.only_train);
  test.details["c"] = static_cast<double>(k.only_inf);
  return test;
}

}  // namespace driftgate::stages
