#pragma once

#include "gpu/cuda/hidden_records.hpp"

/// Converts products to logits: bias, soft-cap, temperature.
namespace driftgate::gpu::cuda {

struct Logit {
  double z, drift;
};

/// Applies the soft-cap and then the temperature. Under one cap the drift is tanh a − tanh b = sinh(a −
/// b)/(cosh a·cosh b), which keeps the relative accuracy of a small a − b.
DRIFTGATE_HD_COLD Logit capped(const HeadsView& heads, double x, double drift) {
  const double cap = heads.cap_train, y = x - drift;
  Logit out;
  if (cap == heads.cap_inf) {
    const double a = x / cap, b = y / cap, gap = drift / cap;
    out.z = std::tanh(a) * cap;
    const double near = std::sinh(std::fmin(std::fmax(gap, -1.0), 1.0)) / std::cosh(a) / std::cosh(b);
    out.drift = (std::fabs(gap) <= 1 ? near : std::tanh(a) - std::tanh(b)) * cap;
  } else {
    out.z = cap > 0 ? std::tanh(x / cap) * cap : x;
    out.drift = out.z - (heads.cap_inf > 0 ? std::tanh(y / heads.cap_inf) * heads.cap_inf : y);
  }
  out.z /= heads.temperature, out.drift /= heads.temperature;
  return out;
}

/// A pair of logits in the units of the frame of a row: z − base_z and d' = (Δ − base_drift) − c.
struct NarrowPair {
  float z, d;
};
DRIFTGATE_HD NarrowPair narrow_pair(const HeadsView& heads, const HiddenInfo& info, float c, float product,
                                    float drift_product) {
  if (!heads.capped) return {product, drift_product - c};
  const Logit logit = capped(heads, static_cast<double>(product) + info.shared_z,
                             static_cast<double>(drift_product) + info.shared_drift);
  return {static_cast<float>(logit.z), static_cast<float>(logit.drift - static_cast<double>(c))};
}

/// A logit from products in float64: scale·W·h of K_train, and the drift before the bias.
DRIFTGATE_HD Logit exact_logit(const HeadsView& heads, std::uint32_t column, double product, double drift) {
  if (heads.bias_train != nullptr) product += heads.bias_train[column], drift += heads.bias_drift[column];
  if (heads.capped) return capped(heads, product, drift);
  return {product / heads.temperature, drift / heads.temperature};
}

}  // namespace driftgate::gpu::cuda
