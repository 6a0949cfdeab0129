#include "gpu/fused/head_pair.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace driftgate::gpu::fused {

namespace {

constexpr std::size_t kSampledRows = 4'096;  ///< for the mean row, evenly spaced
constexpr double kLargestShare = 4;          ///< of an element's square mean over its variance

struct Centre {
  std::vector<float> mean;
  /// Whether the common part of the tokens is no larger than their differences, in each element approximately
  /// and as a whole.
  bool small;
};

Centre centre_of(const ProductKernel& kernel, const LmHead& head, const std::vector<std::uint32_t>& tokens) {
  const std::size_t width = head.width();
  const std::size_t step = tokens.size() / kSampledRows + 1;
  std::vector<double> sums(width), squares(width);
  std::vector<float> row(width);
  std::size_t count = 0;
  for (std::size_t i = 0; i < tokens.size(); i += step, ++count) {
    kernel.widen(head.row(tokens[i]), head.dtype(), width, row.data());
    for (std::size_t k = 0; k < width; ++k) {
      const auto weight = static_cast<double>(row[k]);
      sums[k] += weight, squares[k] += weight * weight;
    }
  }
  const double rows = static_cast<double>(std::max<std::size_t>(count, 1));
  double shared = 0, apart = 0;
  bool small = true;
  for (std::size_t k = 0; k < width; ++k) {
    const double mean = sums[k] / rows, square = mean * mean, spread = squares[k] / rows - square;
    small = small && square <= kLargestShare * spread;
    shared += square, apart += spread;
    const auto centre = static_cast<float>(mean);
    row[k] = std::isfinite(centre) ? centre : 0.0F;  // a weight that is not finite affects only its own token
  }
  return {row, small && shared <= apart};
}

/// A bias of −10⁸ or below is a sentinel for a token that must not be sampled; next to the lowest float32,
/// float64 cannot hold a logit of the other head. Where two heads use different sentinels for a token,
/// neither counts as lower than −10⁸.
std::pair<double, double> comparable_biases(double train, double inf) {
  constexpr double kFarthest = 1e8;
  if (!(std::abs(train - inf) > kFarthest) || !std::isfinite(train) || !std::isfinite(inf))
    return {train, inf};
  return {std::clamp(train, -kFarthest, kFarthest), std::clamp(inf, -kFarthest, kFarthest)};
}

}  // namespace

HeadPair pair_heads(const ProductKernel& kernel, std::shared_ptr<const LmHead> train,
                    std::shared_ptr<const LmHead> inf, double temperature, bool bf16) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  HeadPair out;
  out.same = train->scale() == inf->scale() && train->same_weight(*inf);
  out.shape = {train->scale(), train->soft_cap(), inf->soft_cap(), temperature};
  out.tokens.reserve(train->vocabulary());
  for (std::uint32_t v = 0; v < train->vocabulary(); ++v) {
    const double a = train->bias_of(v), b = inf->bias_of(v);
    if (a == kMasked && b == kMasked) continue;
    out.tokens.push_back(v);
    if (!train->has_bias() && !inf->has_bias()) continue;
    const auto [of_train, of_inf] = comparable_biases(a, b);
    out.bias_train.push_back(train->scale() * of_train);
    out.bias_drift.push_back(train->scale() * of_train - inf->scale() * of_inf);
  }
  const std::size_t padded = (out.tokens.size() + cpu::kLanes - 1) / cpu::kLanes * cpu::kLanes;
  if (!out.bias_train.empty()) {
    out.bias_train.resize(padded);
    out.bias_drift.resize(padded);
  }
  Centre centre = centre_of(kernel, *train, out.tokens);
  if (bf16 && out.same && train->dtype() == DRIFTGATE_BF16 && centre.small) out.pairs = best_pairs();
  out.centre_train = std::move(centre.mean);
  out.centre_inf = out.same ? out.centre_train : centre_of(kernel, *inf, out.tokens).mean;
  out.train = std::move(train);
  out.inf = std::move(inf);
  return out;
}

}  // namespace driftgate::gpu::fused
