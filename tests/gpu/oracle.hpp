#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "gpu/table/measurement.hpp"

/// Reference of the per-row metrics in long double, column by column, sharing nothing with the engine.
namespace driftgate::gpu::test {

using Row = std::array<long double, kRowMetricCount>;

struct Pair {
  std::vector<double> train, inf;  ///< logits as stored
  double temperature = 1;
  std::optional<std::int64_t> token;
  std::uint32_t top_k = 10;
};

inline long double log_sum_exp(const std::vector<long double>& x) {
  const long double top = *std::max_element(x.begin(), x.end());
  long double sum = 0;
  for (const long double v : x) sum += expl(v - top);
  return top + logl(sum);
}

inline std::vector<std::size_t> order_of(const std::vector<double>& logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  return order;
}

inline void top_oracle(const Pair& pair, const std::vector<double>& train, const std::vector<double>& inf,
                       Row& out) {
  const auto set = [&out](Metric metric) -> long double& { return out[static_cast<std::size_t>(metric)]; };
  const auto a = order_of(train), b = order_of(inf);
  set(Metric::top1_flip) = a[0] != b[0] ? 1 : 0;
  const std::size_t k = std::min<std::size_t>(pair.top_k, a.size());
  std::size_t shared = 0;
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < k; ++j) shared += a[i] == b[j] ? 1U : 0U;
  }
  set(Metric::topk_overlap) = static_cast<long double>(shared) / static_cast<long double>(k);
  set(Metric::top1_margin) = a.size() < 2
                                 ? std::numeric_limits<long double>::infinity()
                                 : (static_cast<long double>(train[a[0]]) - train[a[1]]) / pair.temperature;
}

/// Rows without NaN and without infinities other than masked entries.
inline Row oracle(const Pair& pair) {
  Row out;
  out.fill(std::numeric_limits<long double>::quiet_NaN());
  const auto set = [&out](Metric metric) -> long double& { return out[static_cast<std::size_t>(metric)]; };
  std::vector<double> train, inf;
  std::optional<std::size_t> token;
  for (std::size_t v = 0; v < pair.train.size(); ++v) {
    if (std::isinf(pair.train[v]) && std::isinf(pair.inf[v])) continue;
    if (pair.token && static_cast<std::size_t>(*pair.token) == v) token = train.size();
    train.push_back(pair.train[v]);
    inf.push_back(pair.inf[v]);
  }
  std::vector<long double> z, y;
  for (const double v : train) z.push_back(static_cast<long double>(v) / pair.temperature);
  for (const double v : inf) y.push_back(static_cast<long double>(v) / pair.temperature);
  const long double lse_z = log_sum_exp(z), lse_y = log_sum_exp(y);
  long double low = INFINITY, high = -INFINITY, sum = 0, tv = 0, kl_pq = 0, kl_qp = 0, js = 0, chi = 0,
              hellinger = 0;
  long double entropy_p = 0, entropy_q = 0, squares = 0;
  for (std::size_t v = 0; v < z.size(); ++v) {
    const long double drift = z[v] - y[v], d = drift - (lse_z - lse_y);
    const long double p = expl(z[v] - lse_z), q = expl(y[v] - lse_y);
    low = std::min(low, drift), high = std::max(high, drift), sum += drift;
    // Non-negative terms; expm1 keeps them exact to far below the tolerance.
    const long double ratio = expm1l(-d);  // q/p − 1
    const bool near = fabsl(d) < 0.5L;
    tv += 0.5L * (near ? p * fabsl(ratio) : fabsl(p - q));
    kl_pq += near ? p * (ratio + d) : q - p + p * d;
    kl_qp += near ? q * (expm1l(d) - d) : p - q - q * d;
    const long double m = (p + q) / 2;
    if (near) {
      const long double t = tanhl(d / 2);
      js += m / 2 * ((1 - t) * log1pl(-t) + (1 + t) * log1pl(t));
      chi += q * expm1l(d) * expm1l(d);
      hellinger += p * expm1l(-d / 2) * expm1l(-d / 2) / 2;
    } else {
      if (p > 0) js += p * (logl(p / m)) / 2;
      if (q > 0) js += q * (logl(q / m)) / 2;
      chi += d > 0 ? expl(z[v] - lse_z + d) * expm1l(-d) * expm1l(-d) : q * expm1l(d) * expm1l(d);
      hellinger += (sqrtl(p) - sqrtl(q)) * (sqrtl(p) - sqrtl(q)) / 2;
    }
    entropy_p -= p * (z[v] - lse_z), entropy_q -= q * (y[v] - lse_y);
  }
  const auto n = static_cast<long double>(z.size());
  for (std::size_t v = 0; v < z.size(); ++v) squares += powl(z[v] - y[v] - sum / n, 2);
  set(Metric::logit_max_abs) = std::max(fabsl(low), fabsl(high));
  set(Metric::logit_rms) = sqrtl(squares / n);
  set(Metric::logit_span) = high - low;
  set(Metric::tv) = tv, set(Metric::kl_train_inf) = kl_pq, set(Metric::kl_inf_train) = kl_qp;
  set(Metric::js) = js, set(Metric::hellinger2) = hellinger, set(Metric::chi2) = chi;
  set(Metric::entropy_train) = entropy_p, set(Metric::entropy_inf) = entropy_q;
  set(Metric::nonfinite) = 0;
  top_oracle(pair, train, inf, out);
  if (token) {
    set(Metric::logprob_train) = z[*token] - lse_z;
    set(Metric::logprob_inf) = y[*token] - lse_y;
    set(Metric::log_ratio) = (z[*token] - y[*token]) - (lse_z - lse_y);
  }
  return out;
}

/// The error that docs/design/measurement.md, "Error bounds", permits.
inline long double permitted(std::size_t metric, long double value) {
  switch (static_cast<Metric>(metric)) {
    case Metric::tv:
    case Metric::kl_train_inf:
    case Metric::kl_inf_train:
    case Metric::js:
      return std::max(1e-6L * fabsl(value), 1e-15L);
    case Metric::logprob_train:
    case Metric::logprob_inf:
      return 1e-6L;
    case Metric::top1_flip:
    case Metric::nonfinite:
      return 0;
    default:
      return std::max(1e-4L * fabsl(value), 1e-12L);
  }
}

/// Empty when `got` agrees with `wanted`, else the metric and both figures.
inline std::string disagreement(const Row& wanted, const double (&got)[kRowMetricCount]) {
  for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
    const long double want = wanted[metric];
    const long double have = got[metric];
    if (std::isnan(want) && std::isnan(have)) continue;
    if (std::isinf(static_cast<double>(want)) && static_cast<double>(want) == got[metric]) continue;
    if (fabsl(want - have) <= permitted(metric, want)) continue;
    return std::string(schema::to_string(static_cast<Metric>(metric))) + ": wanted " + std::to_string(want) +
           " (" + std::to_string(static_cast<double>(log10l(fabsl(want)))) + "), got " +
           std::to_string(got[metric]) + ", off by a factor of " +
           std::to_string(static_cast<double>(have / want));
  }
  return {};
}

}  // namespace driftgate::gpu::test
