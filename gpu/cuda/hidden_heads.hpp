#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/cuda/hidden_digits.hpp"

/// Computations of the host on a pair of heads before any row is measured.
namespace driftgate::gpu::cuda {

inline std::uint32_t padded_lines(std::uint32_t lines) {
  return (lines + kLinePadding - 1) / kLinePadding * kLinePadding;
}
inline std::uint32_t chunks_of(std::uint32_t width) {
  return (width + kChunk - 1) / kChunk;
}

/// Biases in the units of the sweeps; empty without a bias.
struct NarrowBias {
  std::vector<float> train, drift;
  double centre = 0, error = 0;
};
inline NarrowBias narrow_bias(const driftgate_hidden_heads& heads, bool capped) {
  NarrowBias out;
  if (heads.bias_train == nullptr) return out;
  const double over = capped ? 1.0 : heads.temperature;
  // The part that all biases share is subtracted, because it would cost the drift its accuracy.
  double sum = 0;
  for (std::uint32_t i = 0; i < heads.columns; ++i) sum += heads.bias_drift[i] / over;
  out.centre = heads.columns > 0 && std::isfinite(sum) ? sum / heads.columns : 0;
  out.train.resize(padded_lines(heads.columns));
  out.drift.resize(padded_lines(heads.columns));
  for (std::uint32_t i = 0; i < heads.columns; ++i) {
    const double drift = heads.bias_drift[i] / over - out.centre;
    out.train[i] = static_cast<float>(heads.bias_train[i] / over);
    out.drift[i] = static_cast<float>(drift);
    out.error = std::max(out.error, std::fabs(drift - static_cast<double>(out.drift[i])));
  }
  return out;
}

/// A view of heads whose arrays are in the memory that `heads` points to; the caller fills in the rest.
inline HeadsView view_of(const driftgate_hidden_heads& heads, const NarrowBias& bias) {
  HeadsView out{};
  out.tokens = heads.tokens;
  out.bias_train = heads.bias_train, out.bias_drift = heads.bias_drift;
  out.drift_centre = bias.centre, out.bias_error = bias.error;
  const auto one = [&](const driftgate_head_weight& from) {
    return HeadView{static_cast<const unsigned char*>(from.weight), from.centre, from.scale,
                    std::uint64_t{heads.width} * element_bytes(from.dtype), from.dtype};
  };
  out.train = one(heads.train), out.inf = one(heads.same != 0 ? heads.train : heads.inf);
  out.cap_train = heads.train.soft_cap, out.cap_inf = heads.inf.soft_cap;
  out.temperature = heads.temperature;
  out.width = heads.width, out.columns = heads.columns;
  out.same = heads.same != 0;
  out.capped = out.cap_train > 0 || out.cap_inf > 0;
  return out;
}

/// The column of each target token; −1 where it is masked.
inline std::vector<std::int32_t> columns_of(const std::uint32_t* tokens, std::uint32_t columns,
                                            const std::int64_t* targets, std::uint64_t rows) {
  std::vector<std::int32_t> out;
  for (std::uint64_t i = 0; i < rows; ++i) {
    const auto token = static_cast<std::uint32_t>(targets[i]);
    const std::uint32_t* const found = std::lower_bound(tokens, tokens + columns, token);
    out.push_back(found != tokens + columns && *found == token ? static_cast<std::int32_t>(found - tokens)
                                                               : -1);
  }
  return out;
}

/// Means of the norms of the lines of a head; false where an element is not finite.
inline bool mean_norms(const LineNorms* norms, std::uint32_t columns, double& square, double& unit2) {
  square = unit2 = 0;
  for (std::uint32_t i = 0; i < columns; ++i) square += norms[i].square, unit2 += norms[i].unit2;
  square /= std::max<std::uint32_t>(columns, 1), unit2 /= std::max<std::uint32_t>(columns, 1);
  return std::isfinite(square) && std::isfinite(unit2);
}

/// How the columns of a row are sampled: about a sixteenth of the tiles, more where finding the k most likely
/// tokens requires it.
struct SamplePlan {
  std::uint32_t step, samples;
};
inline SamplePlan plan_sample(std::uint32_t tiles, std::uint32_t parts_of_tile, std::uint32_t top_k) {
  constexpr std::uint32_t kMostStep = 16, kPartsForEach = 8;
  const std::uint32_t wanted = std::max<std::uint32_t>(kPartsForEach * top_k, 64);
  const std::uint32_t step = std::clamp<std::uint32_t>(tiles * parts_of_tile / wanted, 1, kMostStep);
  return {step, (tiles + step - 1) / step * parts_of_tile};
}

}  // namespace driftgate::gpu::cuda
