#pragma once

#include <cmath>

namespace driftgate::gpu {

/// The value that engines write for an unknown log-probability: vLLM writes −9999.0. No actual
/// log-probability comes near it.
inline constexpr double kUnknownLogprob = -9999.0;

/// Whether a value reported by an engine means "unknown": −9999 and below, and −∞
/// (docs/design/measurement.md, "Partly known distributions"). NaN does not: it is a fault of the engine.
[[nodiscard]] constexpr bool is_unknown_logprob(double value) {
  return value <= kUnknownLogprob;
}

/// Whether a value is a known log-probability: finite and above −9999.
[[nodiscard]] inline bool is_known_logprob(double value) {
  return std::isfinite(value) && !is_unknown_logprob(value);
}

}  // namespace driftgate::gpu
