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

/// The errors of the log-probabilities of one capture (docs/design/measurement.md, "Rounding of the source").
struct LogprobError {
  /// Of a stored log-probability l, in nats: |l|·relative + absolute.
  double relative = 0x1p-24;  ///< float32
  double absolute = 0;
  /// Unit roundoff of the arithmetic in which the engine computed its softmax: 2⁻²⁴ for float32.
  double unit = 0x1p-24;
  bool operator==(const LogprobError&) const = default;
};

/// What one kernel reported for one row.
struct PartialSide {
  std::span<const ListedToken> list;     ///< any order, no id twice, no NaN
  std::optional<double> target_logprob;  ///< log-probability of the target token
  LogprobError error;
};

/// One row of two captures in the same partial mode.
struct PartialInput {
  CaptureMode mode{};
  PartialSide train, inf;
  std::optional<std::int64_t> token;  ///< the target token
  std::uint32_t columns = 0;          ///< K of the captures, the length of the longest list
  std::uint32_t vocabulary = 0;       ///< 0: unknown
  std::uint32_t top_k = 10;           ///< of topk_overlap
};

/// The figures of one row whose distributions are known only in part.
struct PartialRow {
  /// By metric; NaN where this mode gives no bounds for it.
  std::array<Interval, kRowMetricCount> bounds;
  /// Upper bounds of the mass outside the tokens that both kernels reported.
  double tail_train = 1, tail_inf = 1;
  /// Log-probabilities of the target token, where known.
  std::optional<double> logprob_train, logprob_inf;
  /// Probability of each kernel's most likely token, where known.
  std::optional<double> top_train, top_inf;
  /// An unbiased estimate of KL(q‖p) from the lists and a token that K_inf sampled without filters: the exact
  /// terms of the listed tokens, and w − 1 − log w for a token outside them.
  std::optional<double> kl_estimate;
  bool unknown = false;  ///< the kernels reported no token in common, so that the bounds are trivial
};

/// The metrics whose figures are bounds in a mode, in the order of Metric.
[[nodiscard]] std::vector<Metric> bounded_metrics(CaptureMode mode);

/// Bounds of the figures of one row (docs/design/measurement.md, "Bounds"). In mode topk an unlisted token is
/// at most as likely as the least likely listed one. The engine may have appended the target token to its
/// list: where it is the least likely of the list, its probability is known, but it does not count as listed.
[[nodiscard]] PartialRow measure_partial_row(const PartialInput& input);

}  // namespace driftgate::gpu
