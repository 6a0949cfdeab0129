#pragma once

#include <cmath>

namespace driftgate::gpu {

/// What engines write for a log-probability that they do not know: vLLM writes −9999.0, and no real one is
/// near it.
inline constexpr double kUnknownLogprob = -9999.0;

/// Whether an engine's figure stands for "not known": −9999 and below, −inf (docs/design/measurement.md, "Partly
/// known distributions"). NaN is not: it is a fault of the engine.
[[nodiscard]] constexpr bool is_unknown_logprob(double value) {
  return value <= kUnknownLogprob;
}

/// Whether it can be measured with: finite, and not "not known".
[[nodiscard]] inline bool is_known_logprob(double value) {
  return std::isfinite(value) && !is_unknown_logprob(value);
}

}  // namespace driftgate::gpu
