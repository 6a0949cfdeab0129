#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gpu/partial/partial_row.hpp"
#include "tests/gpu/logits.hpp"

/// Random pairs of distributions, what engines would tell of them, and the truth.
namespace driftgate::gpu::test {

struct TruePair {
  std::vector<double> p, q;
};

inline std::vector<double> softmax_of(const std::vector<double>& logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  std::vector<double> out;
  for (const double z : logits) out.push_back(std::exp(z - top));
  for (const double x : out) sum += x;
  for (double& x : out) x /= sum;
  return out;
}

/// From nearly equal to unrelated distributions, flat and peaked.
inline TruePair random_pair(std::mt19937_64& random, std::size_t vocabulary) {
  std::normal_distribution<double> normal;
  const double size = std::array{0.1, 1.0, 3.0, 8.0}[random() % 4];
  const double drift = std::array{1e-6, 1e-3, 0.05, 0.5, 3.0}[random() % 5];
  std::vector<double> z, y;
  for (std::size_t v = 0; v < vocabulary; ++v) {
    z.push_back(size * normal(random));
    y.push_back(random() % 31 == 0 ? size * normal(random) : z.back() + drift * normal(random));
  }
  return {softmax_of(z), softmax_of(y)};
}

inline std::vector<double> truth_of(const TruePair& pair, std::uint32_t top_k) {
  std::vector<double> out(kRowMetricCount, std::nan(""));
  const auto set = [&out](Metric metric) -> double& { return out[static_cast<std::size_t>(metric)]; };
  for (const Metric metric : {Metric::tv, Metric::kl_train_inf, Metric::kl_inf_train, Metric::js,
                              Metric::hellinger2, Metric::chi2, Metric::entropy_train, Metric::entropy_inf}) {
    set(metric) = 0;
  }
  double low = INFINITY, high = -INFINITY;
  for (std::size_t v = 0; v < pair.p.size(); ++v) {
    const double p = pair.p[v], q = pair.q[v], m = (p + q) / 2, d = std::log(p) - std::log(q);
    set(Metric::tv) += std::abs(p - q) / 2;
    set(Metric::kl_train_inf) += q - p + p * d;
    set(Metric::kl_inf_train) += p - q - q * d;
    set(Metric::js) += (p * std::log(p / m) + q * std::log(q / m)) / 2;
    set(Metric::hellinger2) += std::pow(std::sqrt(p) - std::sqrt(q), 2) / 2;
    set(Metric::chi2) += (p - q) * (p - q) / q;
    set(Metric::entropy_train) -= p * std::log(p);
    set(Metric::entropy_inf) -= q * std::log(q);
    low = std::min(low, d), high = std::max(high, d);
  }
  set(Metric::logit_span) = high - low;
  const auto order = [](const std::vector<double>& x) {
    std::vector<std::size_t> ids(x.size());
    std::iota(ids.begin(), ids.end(), std::size_t{0});
    std::ranges::stable_sort(ids, [&](std::size_t i, std::size_t j) { return x[i] > x[j]; });
    return ids;
  };
  const auto a = order(pair.p), b = order(pair.q);
  set(Metric::top1_flip) = a[0] == b[0] ? 0 : 1;
  const std::size_t k = std::min<std::size_t>(top_k, a.size());
  std::size_t common = 0;
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < k; ++j) common += a[i] == b[j] ? 1U : 0U;
  }
  set(Metric::topk_overlap) = static_cast<double>(common) / static_cast<double>(k);
  set(Metric::top1_margin) = a.size() < 2 ? INFINITY : std::log(pair.p[a[0]]) - std::log(pair.p[a[1]]);
  return out;
}

enum class Rounding { none, bf16, grid };
constexpr double kGrid = 0.01;  ///< nats; what `grid` rounds to

inline float stored_logprob(double probability, Rounding rounding) {
  const double l = std::log(probability);
  if (rounding == Rounding::bf16) return cpu::from_bf16(to_bf16(static_cast<float>(l)));
  return static_cast<float>(rounding == Rounding::grid ? std::round(l / kGrid) * kGrid : l);
}

inline LogprobError error_for(Rounding rounding) {
  if (rounding == Rounding::bf16) return {0x1p-8, 0};
  return {0x1p-24, rounding == Rounding::grid ? kGrid / 2 : 0.0};
}

/// The k most likely tokens, and the target token behind them where an engine appends it (−1 = none).
inline std::vector<ListedToken> top_list(const std::vector<double>& x, std::size_t k, Rounding rounding,
                                         std::int64_t appended) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  order.resize(std::min(k, order.size()));
  if (appended >= 0) {
    const auto token = static_cast<std::size_t>(appended);
    if (std::ranges::find(order, token) == order.end()) order.push_back(token);
  }
  std::vector<ListedToken> out;
  for (const std::size_t v : order) {
    out.push_back({static_cast<std::int64_t>(v), stored_logprob(x[v], rounding)});
  }
  return out;
}

inline std::vector<ListedToken> matched_list(const std::vector<double>& x,
                                             const std::vector<std::size_t>& ids, Rounding rounding) {
  std::vector<ListedToken> out;
  for (const std::size_t v : ids) {
    out.push_back({static_cast<std::int64_t>(v), stored_logprob(x[v], rounding)});
  }
  return out;
}

}  // namespace driftgate::gpu::test
