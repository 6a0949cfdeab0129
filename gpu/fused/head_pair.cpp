#include "gpu/fused/head_pair.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace driftgate::gpu::fused {

namespace {

constexpr std::size_t kSampledRows = 4'096;  ///< for the mean row, evenly spaced

std::vector<float> mean_row(const ProductKernel& kernel, const LmHead& head,
                            const std::vector<std::uint32_t>& tokens) {
  const std::size_t width = head.width();
  const std::size_t step = tokens.size() / kSampledRows + 1;
  std::vector<double> sums(width);
  std::vector<float> row(width);
  std::size_t count = 0;
  for (std::size_t i = 0; i < tokens.size(); i += step, ++count) {
    kernel.widen(head.row(tokens[i]), head.dtype(), width, row.data());
    for (std::size_t k = 0; k < width; ++k) sums[k] += static_cast<double>(row[k]);
  }
  for (std::size_t k = 0; k < width; ++k) {
    const auto mean = static_cast<float>(sums[k] / static_cast<double>(std::max<std::size_t>(count, 1)));
    row[k] = std::isfinite(mean) ? mean : 0.0F;  // a weight that is not finite shows in its own token
  }
  return row;
}

}  // namespace

HeadPair pair_heads(const ProductKernel& kernel, std::shared_ptr<const LmHead> train,
                    std::shared_ptr<const LmHead> inf, double temperature) {
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
    out.bias_train.push_back(train->scale() * a);
    out.bias_drift.push_back(train->scale() * a - inf->scale() * b);
  }
  const std::size_t padded = (out.tokens.size() + cpu::kLanes - 1) / cpu::kLanes * cpu::kLanes;
  if (!out.bias_train.empty()) {
    out.bias_train.resize(padded);
    out.bias_drift.resize(padded);
  }
  out.centre_train = mean_row(kernel, *train, out.tokens);
  out.centre_inf = out.same ? out.centre_train : mean_row(kernel, *inf, out.tokens);
  out.train = std::move(train);
  out.inf = std::move(inf);
  return out;
}

}  // namespace driftgate::gpu::fused
