#pragma once

#include <optional>
#include <string>

#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::stages {

/// What a contract is suggested from. The tables are not owned.
struct SuggestInputs {
  const gpu::MeasurementTable* table = nullptr;        ///< K_train against K_inf
  /// K_train against itself at another batch size; may be null.
  const gpu::MeasurementTable* floor_train = nullptr;
  /// K_inf against itself at another batch size; may be null.
  const gpu::MeasurementTable* floor_inf = nullptr;
  std::string name = "suggested";
  double headroom = 2;  ///< a limit is this multiple of the measured upper limit; > 1
  double alpha = 0.05;  ///< level of the confidence limits
  std::string sources;  ///< names of the captures, for the comment at the top
};

/// A contract as YAML, to be reviewed. It parses without faults; measured figures, floors and reasons are in
/// comments.
/// - Means are over sequences and exact. A limit is `headroom` times the upper confidence limit of the mean,
///   rounded up to two digits.
/// - Each sequence counts as at most a clip: the larger of `headroom` times the largest mean of a sequence
///   and 12.5 times the mean of all. A quantile clause over sequences limits the share above it: p97, or p95
///   or p90 if the corpus, or its largest slice, has too few sequences for that.
/// - Every slice dimension of the corpus is declared (at most 16) and monitored; `min_sequences` is what that
///   quantile needs.
///
/// Errors: `invalid_argument` for a headroom of 1 or less, `unsupported` if the captures have non-finite
/// logits, from which no limit can be made.
[[nodiscard]] schema::Result<std::string> suggest_contract(const SuggestInputs& inputs);

}  // namespace driftgate::stages
