#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/partial/divergence_bounds.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// How far a stored log-probability l may lie from the one that the kernel computed:
/// |l|·relative + absolute.
struct LogprobError {
  double relative = 0x1p-24;  ///< float32
  double absolute = 0;
  bool operator==(const LogprobError&) const = default;
};

/// Engines sum their softmax in float32, so that the masses that they list may add up to this much too much
/// or too little. Every tail is widened by it.
inline constexpr double kMassError = 2e-6;

/// What one kernel told of one row.
struct PartialSide {
  std::span<const ListedToken> list;  ///< any order, no id twice, no NaN
  std::optional<double> target_logprob;  ///< log-probability of the target token
  LogprobError error;
};

/// One row of two captures in the same partial mode.
struct PartialInput {
  CaptureMode mode{};
  PartialSide train, inf;
  std::optional<std::int64_t> token;  ///< the target token
  std::uint32_t columns = 0;          ///< K of the captures: the longest list
  std::uint32_t vocabulary = 0;       ///< 0 = unknown
  std::uint32_t top_k = 10;           ///< of topk_overlap
};

/// The figures of one row of which only parts of the distributions are known.
struct PartialRow {
  /// By metric; NaN where this mode says nothing of it.
  std::array<Interval, kRowMetricCount> bounds;
  /// Mass outside the tokens that both kernels named, at most.
  double tail_train = 1, tail_inf = 1;
  /// Log-probabilities of the target token, where known.
  std::optional<double> logprob_train, logprob_inf;
  /// Probability of each kernel's most likely token, where known.
  std::optional<double> top_train, top_inf;
  /// An unbiased estimate of KL(q‖p) from lists and a token that K_inf sampled without filters: terms of the
  /// lists exactly, and w − 1 − log w of a token outside them.
  std::optional<double> kl_estimate;
  bool unknown =
      false;  ///< neither kernel named a token that the other named: the bounds are the trivial ones
};

/// The metrics whose figures are bounds in a mode, in the order of Metric.
[[nodiscard]] std::vector<Metric> bounded_metrics(CaptureMode mode);

/// Bounds of the figures of one row (docs/design/measurement.md, "Bounds"). In mode topk a token that is not
/// listed is no more likely than the least listed one. The target token may have been appended to the list
/// by the engine: when it is the least of its list it is known and not counted as listed.
[[nodiscard]] PartialRow measure_partial_row(const PartialInput& input);

}  // namespace driftgate::gpu
