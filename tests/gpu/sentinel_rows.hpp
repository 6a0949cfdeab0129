#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/random_rows.hpp"

/// Rows in which sentinels, which are large finite numbers, stand for masked tokens (kSentinelBound in
/// gpu/backend/backend_input.hpp).
namespace driftgate::gpu::test {

inline std::vector<Case> sentinel_rows() {
  constexpr std::size_t kColumns = 3'000, kFirstSentinel = 2'900;  // two tiles, the second one padded
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  constexpr float kAsItWas = std::numeric_limits<float>::quiet_NaN();
  struct Sentinels {
    const char* name;
    float train, inf;     ///< the sentinels of the masked columns; NaN: none
    std::size_t columns;  ///< from kFirstSentinel on, or the likeliest of K_train first
    bool likeliest;
  };
  constexpr Sentinels kAll[] = {{"both mask padding, differently", kLeast, -1e4F, 100, false},
                                {"the other way round", -1e9F, -1e30F, 100, false},
                                {"both mask padding alike", kLeast, kLeast, 100, false},
                                {"K_inf masks the likeliest", kAsItWas, kLeast, 5, true},
                                {"K_inf masks the likeliest by less", kAsItWas, -1e12F, 5, true},
                                {"K_train masks the likeliest", kLeast, kAsItWas, 5, true},
                                {"K_train masks a tail", -1e20F, kAsItWas, 100, false}};
  std::mt19937_64 random(20);
  std::normal_distribution<double> normal;
  std::vector<Case> out;
  for (const Sentinels& sentinels : kAll) {
    std::vector<double> train(kColumns), inf(kColumns);
    for (std::size_t v = 0; v < kColumns; ++v) {
      train[v] = 3 * normal(random);
      inf[v] = train[v] + 0.01 * normal(random);
    }
    std::vector<std::size_t> order(kColumns);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (sentinels.likeliest)
      std::ranges::sort(order, std::ranges::greater{}, [&](std::size_t v) { return train[v]; });
    for (std::size_t i = 0; i < sentinels.columns; ++i) {
      const std::size_t v = sentinels.likeliest ? order[i] : kFirstSentinel + i;
      if (!std::isnan(sentinels.train)) train[v] = static_cast<double>(sentinels.train);
      if (!std::isnan(sentinels.inf)) inf[v] = static_cast<double>(sentinels.inf);
    }
    Case test;
    test.train = store(train, DRIFTGATE_F32), test.inf = store(inf, DRIFTGATE_F32);
    test.pair = {test.train.values, test.inf.values, 1, 17, 10};
    test.text = sentinels.name;
    out.push_back(std::move(test));
  }
  return out;
}

/// Where a true figure is beyond 10^8 or infinite, the measured one is only large.
inline void check_sentinel_row(const Case& test, const driftgate_row& row) {
  const Row wanted = oracle(test.pair);
  REQUIRE(row.status == DRIFTGATE_ROW_OK);
  const auto measured = [&row](Metric metric) {
    return static_cast<long double>(row.values[static_cast<std::size_t>(metric)]);
  };
  for (const Metric metric :
       {Metric::logit_max_abs, Metric::logit_span, Metric::tv, Metric::js, Metric::hellinger2,
        Metric::entropy_train, Metric::entropy_inf, Metric::top1_flip, Metric::topk_overlap,
        Metric::logprob_train, Metric::logprob_inf, Metric::log_ratio}) {
    const long double value = wanted[static_cast<std::size_t>(metric)];
    CAPTURE(schema::to_string(metric));
    const bool ratio = metric == Metric::log_ratio || metric == Metric::logprob_inf;
    if (ratio && std::abs(value) > 1e8L) {  // of a token that the other kernel's sentinel leaves without mass
      CHECK(std::abs(measured(metric)) > 9e7L);
      continue;
    }
    // Where one logit is as far as 10^8, float64 holds what it differs by to 1.5e-8.
    CHECK(std::abs(measured(metric) - value) <= 1e-6L * std::abs(value) + 1e-7L);
  }
  for (const Metric metric : {Metric::kl_train_inf, Metric::kl_inf_train, Metric::chi2}) {
    const long double value = wanted[static_cast<std::size_t>(metric)];
    if (!std::isfinite(value)) continue;  // chi2 is e^{1e30} where q is that much less than a p of no mass
    CAPTURE(schema::to_string(metric));
    const long double allowed = (metric == Metric::chi2 ? 1e-4L : 1e-6L) * value;
    CHECK((value < 1e3L ? std::abs(measured(metric) - value) <= allowed : measured(metric) > 1e3L));
  }
}

}  // namespace driftgate::gpu::test
