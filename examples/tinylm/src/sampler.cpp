#include "examples/tinylm/src/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tinylm {

std::vector<double> log_softmax(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float z : logits) total += std::exp(static_cast<double>(z) - top);
  const double offset = top + std::log(total);
  std::vector<double> out;
  out.reserve(logits.size());
  for (const float z : logits) out.push_back(static_cast<double>(z) - offset);
  return out;
}

std::int32_t argmax(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::int32_t sample(std::span<const float> logits, double temperature, std::mt19937_64& random) {
  if (temperature <= 0) return argmax(logits);
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> cumulative;
  cumulative.reserve(logits.size());
  double total = 0;
  for (const float z : logits) {
    total += std::exp((static_cast<double>(z) - top) / temperature);
    cumulative.push_back(total);
  }
  // 53 random bits: the draw is the same with every standard library.
  const double draw = static_cast<double>(random() >> 11U) * 0x1p-53 * total;
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), draw);
  return static_cast<std::int32_t>(std::min(at, cumulative.end() - 1) - cumulative.begin());
}

void keep_top_share(std::span<float> logits, double share) {
  double kept = 0;
  for (const auto& [token, logprob] : top_entries(log_softmax(logits), logits.size())) {
    if (kept >= share) logits[static_cast<std::size_t>(token)] = -std::numeric_limits<float>::infinity();
    kept += std::exp(logprob);
  }
}

std::vector<std::pair<std::int32_t, double>> top_entries(std::span<const double> logprobs, std::size_t k) {
  std::vector<std::int32_t> order(logprobs.size());
  std::iota(order.begin(), order.end(), 0);
  k = std::min(k, order.size());
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const double x = logprobs[static_cast<std::size_t>(a)], y = logprobs[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), before);
  std::vector<std::pair<std::int32_t, double>> out;
  for (std::size_t i = 0; i < k; ++i)
    out.emplace_back(order[i], logprobs[static_cast<std::size_t>(order[i])]);
  return out;
}

}  // namespace tinylm
