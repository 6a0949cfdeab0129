#include <algorithm>
#include <cmath>

#include "stages/clauses/metric_test.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

constexpr std::size_t kLeastClusters = 50;
constexpr std::size_t kReplicates = 1'999;

struct TokenSums {
  double n = 0, w = 0, ww = 0, p = 0, q = 0, pp = 0, qq = 0, pq = 0;

  void add(const TokenSums& o) {
    n += o.n;
    w += o.w;
    ww += o.ww;
    p += o.p;
    q += o.q;
    pp += o.pp;
    qq += o.qq;
    pq += o.pq;
  }

  [[nodiscard]] double figure(schema::Metric metric) const {
    if (metric == schema::Metric::ess_fraction) return ww > 0 ? w * w / (n * ww) : 0;
    const double variance_p = pp - p * p / n;
    const double variance_q = qq - q * q / n;
    if (variance_p <= 0 || variance_q <= 0) return variance_p == variance_q ? 1 : 0;
    return (pq - p * q / n) / std::sqrt(variance_p * variance_q);
  }
};

std::vector<TokenSums> collect_sums(const gpu::MeasurementTable& table, const Selection& selection) {
  const std::vector<std::size_t> numbers = cluster_numbers(table, selection);
  std::vector<TokenSums> clusters;
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const gpu::TargetTokenSums& r = table.sequences[selection[i]].target;
    if (numbers[i] >= clusters.size()) clusters.resize(numbers[i] + 1);
    clusters[numbers[i]].add(
        {static_cast<double>(r.n), r.w, r.w_squares, r.p, r.q, r.p_squares, r.q_squares, r.pq});
  }
  std::erase_if(clusters, [](const TokenSums& c) { return c.n <= 0; });
  return clusters;
}

}  // namespace

MeanTest test_derived(const gpu::MeasurementTable& table, const Selection& selection, schema::Metric metric,
                      double tau, double alpha, std::uint64_t seed) {
  MeanTest test;
  test.method = "cluster percentile bootstrap";
  test.approximate = true;
  const std::vector<TokenSums> clusters = collect_sums(table, selection);
  TokenSums all;
  for (const TokenSums& c : clusters) all.add(c);
  test.n = static_cast<std::uint64_t>(all.n);
  test.clusters = clusters.size();
  if (test.n > 0) test.estimate = all.figure(metric);
  if (clusters.size() < kLeastClusters) {
    test.undecidable =
        "resampling needs at least 50 independent sequences and there are " + std::to_string(clusters.size());
    return test;
  }
  // The k-th smallest of B replicates stands for the quantile k/(B + 1): the level is kept, not exceeded.
  const auto k = static_cast<std::size_t>(alpha * (static_cast<double>(kReplicates) + 1));
  if (k == 0) {
    test.undecidable = "the level asked for is finer than the resampling can resolve";
    return test;
  }
  Random random(seed);
  std::vector<double> figures(kReplicates);
  for (double& value : figures) {
    TokenSums drawn;
    for (std::size_t i = 0; i < clusters.size(); ++i) drawn.add(clusters[random.below(clusters.size())]);
    value = drawn.figure(metric);
  }
  std::ranges::sort(figures);
  const auto count = static_cast<double>(figures.size());
  test.lower = figures[k - 1];
  test.upper = figures[figures.size() - k];
  const auto above = static_cast<double>(figures.end() - std::ranges::upper_bound(figures, tau));
  test.p_low = (1 + above) / (count + 1);
  test.p_high = (1 + (count - above)) / (count + 1);
  test.details["replicates"] = count;
  return test;
}

}  // namespace driftgate::stages
