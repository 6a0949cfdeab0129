#pragma once

#include <optional>
#include <string>

#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::stages {

/// What a suggestion is made from.
struct SuggestInputs {
  const gpu::MeasurementTable* table = nullptr;        ///< K_train against K_inf
  const gpu::MeasurementTable* floor_train = nullptr;  ///< K_train against itself, re-batched; may be null
  const gpu::MeasurementTable* floor_inf = nullptr;    ///< K_inf at batch 1 and N; may be null
  std::string name = "suggested";
  double headroom = 2;  ///< limits stand at this multiple of the measured upper limit; > 1
  double alpha = 0.05;  ///< of the limits that the suggestion is made from
  std::string sources;  ///< how the captures were named, for the comment at the top
};

/// A contract as YAML to review. Means are over sequences and exact: limits stand at `headroom` times the upper
/// confidence limit of the mean, each sequence counting as at most a clip above all that were seen (`headroom` times
/// the largest, 12.5 times the mean), rounded up to two digits and so never below what the same data can prove.
/// Beside each clip stands the quantile clause over sequences at it: p97, or the outermost of p95 and p90 that the
/// corpus, or its largest slice, has sequences enough for. Measured figures, floors and reasons stand in comments.
/// Every slice dimension of the corpus is declared and monitored, from as many sequences on as that quantile takes.
/// The text parses without faults. Errors: `invalid_argument` for a headroom of 1 or less, `unsupported` when the
/// captures have non-finite logits (no limit would be honest).
[[nodiscard]] schema::Result<std::string> suggest_contract(const SuggestInputs& inputs);

}  // namespace driftgate::stages
