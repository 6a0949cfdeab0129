#pragma once

#include <limits>
#include <random>
#include <string>

#include "gpu/cpu/row_engine.hpp"
#include "tests/gpu/logits.hpp"
#include "tests/gpu/oracle.hpp"

namespace driftgate::gpu::test {

inline constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// A random row pair: shape, size of the logits, drift from 1e-9 to 50, offset, ties, masks, dtype.
struct Case {
  Stored train, inf;
  Pair pair;
  std::string text;
};

inline Case random_case(std::mt19937_64& random, std::uint32_t most_columns = 10'000) {
  const auto pick = [&](auto... choices) {
    const double all[] = {static_cast<double>(choices)...};
    return all[random() % (sizeof...(choices))];
  };
  const auto vocabulary = std::min(
      most_columns, static_cast<std::uint32_t>(pick(1, 2, 7, 8, 9, 63, 259, 2047, 2048, 2049, 4100, 9001)));
  const double size = pick(0.01, 1, 5, 30, 200);
  const double drift = pick(0, 1e-9, 1e-7, 1e-5, 1e-3, 0.03, 0.3, 1, 5, 50);
  const double offset = pick(0, 0, 7.3, -100);
  const double masked = pick(0, 0, 0.01, 0.9);
  const bool ties = pick(0, 0, 1) > 0;
  Case out;
  std::normal_distribution<double> normal;
  std::vector<double> train, inf;
  for (std::uint32_t v = 0; v < vocabulary; ++v) {
    double z = size * normal(random);
    if (ties) z = std::round(z);
    const bool rare_jump = random() % 997 == 0;
    const double y = z + offset + drift * normal(random) + (rare_jump ? 2.0 : 0.0);
    const bool mask = v > 0 && std::generate_canonical<double, 53>(random) < masked;
    train.push_back(mask ? kMasked : z);
    inf.push_back(mask ? kMasked : y);
  }
  const auto dtype = static_cast<std::uint32_t>(random() % 3);
  out.train = store(train, dtype);
  out.inf = store(inf, static_cast<std::uint32_t>(random() % 4 == 0 ? random() % 3 : dtype));
  out.pair = {out.train.values, out.inf.values, pick(1, 1, 0.7, 2.5), std::nullopt,
              static_cast<std::uint32_t>(pick(1, 10, 10, 50))};
  std::int64_t token = static_cast<std::int64_t>(random() % vocabulary);
  while (train[static_cast<std::size_t>(token)] == kMasked) --token;
  out.pair.token = token;
  out.text = "V " + std::to_string(vocabulary) + ", size " + std::to_string(size) + ", drift " +
             std::to_string(drift) + ", offset " + std::to_string(offset) + ", masked " +
             std::to_string(masked) + ", temperature " + std::to_string(out.pair.temperature);
  return out;
}

/// A few likely tokens above a bulk that has little mass, a drift that may be a constant, noise or grow
/// with the distance from the top, temperature 1: what the float32 kernels are for.
inline Case peaked_case(std::mt19937_64& random) {
  const auto pick = [&](auto... choices) {
    const double all[] = {static_cast<double>(choices)...};
    return all[random() % (sizeof...(choices))];
  };
  const auto vocabulary = static_cast<std::size_t>(pick(3, 40, 259, 1000, 2048, 5000, 12000));
  const double peak = pick(0, 5, 12, 20, 30), level = pick(0, -30, 40, 1000), size = pick(0.5, 2, 4);
  const double noise = pick(1e-8, 1e-6, 1e-4, 3e-3, 0.02, 0.1, 0.4), offset = pick(0, 0, 1e-3, 0.7, -12, 300);
  const double slope = pick(0, 0, 1e-4, 0.01), junk = pick(0, 0, 0.05);
  std::normal_distribution<double> normal;
  std::vector<double> train, inf;
  const std::size_t top = random() % vocabulary;
  for (std::size_t v = 0; v < vocabulary; ++v) {
    double z = level + size * normal(random);
    if (v == top) z += peak;
    if (v == (top + 7) % vocabulary) z += 0.8 * peak;
    if (std::generate_canonical<double, 53>(random) < junk) z = level - 200;
    train.push_back(z);
    inf.push_back(z + offset + slope * (z - level) + noise * normal(random));
  }
  Case out;
  const auto dtype = static_cast<std::uint32_t>(random() % 3);
  out.train = store(train, dtype), out.inf = store(inf, dtype);
  out.pair = {out.train.values, out.inf.values, 1, static_cast<std::int64_t>(random() % vocabulary), 10};
  out.text = "V " + std::to_string(vocabulary) + ", peak " + std::to_string(peak) + ", level " +
             std::to_string(level) + ", noise " + std::to_string(noise) + ", offset " +
             std::to_string(offset) + ", slope " + std::to_string(slope) + ", dtype " + std::to_string(dtype);
  return out;
}

/// Rows beyond the reach of series: noise of 1e-6 to 20 nats, jumps of single columns (also the likeliest, or
/// only such as have no mass), drifts that grow with the distance from the top, and drifts of few different
/// values, whose rounding errors all point the same way.
inline Case wide_case(std::mt19937_64& random) {
  const auto pick = [&](auto... choices) {
    const double all[] = {static_cast<double>(choices)...};
    return all[random() % (sizeof...(choices))];
  };
  const auto vocabulary = static_cast<std::size_t>(pick(64, 100, 259, 1000, 2048, 5000, 12000));
  const double peak = pick(0, 0, 5, 12, 20), level = pick(0, 0, -30, 40, 1000), size = pick(0.5, 2, 4, 10);
  const double noise = pick(1e-6, 1e-4, 3e-3, 0.03, 0.1, 0.3, 0.5, 1, 2, 5, 10, 20);
  const double offset = pick(0, 0, 1e-3, 0.7, -3, 12, 300), slope = pick(0, 0, 0.01, 0.3);
  const double rare = pick(0, 0, 0.001, 0.05), jump = pick(1.5, 3, 8, 20, 60), faint = pick(0, 0, 10, 25);
  const double step = pick(0, 0, 0, 0.5, 1);
  const std::size_t top = random() % vocabulary;
  const bool top_jumps = random() % 4 == 0;
  std::normal_distribution<double> normal;
  std::vector<double> train, inf;
  for (std::size_t v = 0; v < vocabulary; ++v) {
    double z = level + size * normal(random);
    if (v == top) z += peak;
    if (v == (top + 7) % vocabulary) z += 0.8 * peak;
    const bool jumps = std::generate_canonical<double, 53>(random) < rare;
    if (jumps) z -= faint;
    double drift = offset + slope * (z - level) + noise * normal(random);
    if (jumps || (v == top && top_jumps)) drift += random() % 2 == 0 ? jump : -jump;
    if (step > 0) drift = std::round(drift / step) * step;
    train.push_back(z);
    inf.push_back(z + drift);
  }
  Case out;
  const auto dtype = static_cast<std::uint32_t>(random() % 3);
  out.train = store(train, dtype), out.inf = store(inf, dtype);
  out.pair = {out.train.values, out.inf.values, 1, static_cast<std::int64_t>(random() % vocabulary), 10};
  out.text = "V " + std::to_string(vocabulary) + ", peak " + std::to_string(peak) + ", level " +
             std::to_string(level) + ", size " + std::to_string(size) + ", noise " + std::to_string(noise) +
             ", offset " + std::to_string(offset) + ", slope " + std::to_string(slope) + ", rare " +
             std::to_string(rare) + ", jump " + std::to_string(jump) + ", faint " + std::to_string(faint) +
             ", step " + std::to_string(step) + ", dtype " + std::to_string(dtype);
  return out;
}

inline bool finite(const std::vector<double>& values) {
  return std::ranges::none_of(values, [](double v) { return std::isnan(v) || v == -kMasked; });
}

inline driftgate_row evaluate(const cpu::TileKernel& kernel, const Case& test,
                              std::uint32_t metrics = DRIFTGATE_METRICS_ALL) {
  const auto vocabulary = static_cast<std::uint32_t>(test.pair.train.size());
  const std::int64_t token = *test.pair.token;
  const driftgate_batch batch{
      sizeof(driftgate_batch), vocabulary, 1, test.train.view(vocabulary), test.inf.view(vocabulary), &token,
      test.pair.temperature};
  cpu::RowEngine engine(kernel, vocabulary, test.pair.top_k, metrics);
  driftgate_row row{};
  engine.measure(batch, 0, row);
  return row;
}

}  // namespace driftgate::gpu::test
