#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/mean_rules.hpp"

namespace driftgate::stages {

/// The kernel whose noise a floor measures: two runs of it that differ in the batch size.
enum class FloorSide : std::uint8_t { train, inf };
inline constexpr FloorSide kFloorSides[] = {FloorSide::train, FloorSide::inf};
[[nodiscard]] std::string_view to_string(FloorSide side);

/// The drift between two runs of one kernel on one corpus (docs/design/statistics.md, "Noise floor").
struct Floor {
  const gpu::MeasurementTable* table = nullptr;  ///< not owned; null: not measured
  std::string digest;  ///< "sha256:…" of the table's bytes; empty if the table is not kept
};

/// The floors that a stage was given.
struct Floors {
  Floor train{}, inf{};
  [[nodiscard]] const Floor& of(FloorSide side) const { return side == FloorSide::train ? train : inf; }
  [[nodiscard]] bool any() const { return train.table != nullptr || inf.table != nullptr; }
};

/// One floor, measured by the metric and aggregate of a clause. `lower` is its lower confidence limit (0 if
/// the data support no larger one), and `undecidable` the reason if a mean could not be decided.
struct FloorFigure {
  FloorSide side{};
  std::optional<double> estimate;
  double lower = 0;
  std::string method, undecidable, digest;
};

/// The limit of a clause with floor_multiple: the largest lower limit of the floors times `multiple`, but at
/// least `max` and at most `cap`. Half of the level is spent on the drift; the floors share the other half.
struct FloorLimit {
  double limit = 0;
  double max = 0, multiple = 1, cap = 0;  ///< as the contract states them
  double alpha = 0;                       ///< the level that is left for the drift
  double floor_alpha = 0;                 ///< the level of each floor's limit
  std::vector<FloorFigure> floors;
};

/// The limits above `max` that a quantile clause with floor_multiple may have: eight steps from `max` up to
/// floor_cap, geometric unless `max` is 0, in ascending order. They must be known before the floor is, since
/// rows beyond each of them are counted while measuring.
[[nodiscard]] std::vector<double> floor_limit_grid(const schema::Limits& limits);
/// The thresholds beyond which rows of a floor must be counted: for each quantile clause with floor_multiple
/// over rows, the grid divided by the multiple. Without repetition.
[[nodiscard]] std::vector<gpu::Threshold> floor_thresholds(const schema::Contract& contract);

/// The limit of a clause with floor_multiple on the sequences that match `where`; `alpha` is the level of the
/// clause as a whole. The floor of a quantile is tested step by step along the grid, each step at the whole
/// level of the floor, up to the first one that is not proven: this is a fixed sequence of tests and needs no
/// correction. Errors, which tell how to repair them: `not_found` without any floor; `invalid_argument` if a
/// floor has no such sequence, has non-finite logits, or lacks the counts of a threshold; `unsupported` if
/// its captures cannot supply the metric.
[[nodiscard]] schema::Result<FloorLimit> floor_limit(const Floors& floors, const schema::Clause& clause,
                                                     const schema::MetricSubject& subject,
                                                     const schema::SliceWhere& where, const MeanRules& rules,
                                                     double alpha, std::uint64_t seed);

/// Checks that the two captures of a floor are of the same kernel, checkpoint and corpus as `own`, the
/// capture of the same kernel for the drift. Error: `not_comparable`, whose message begins with `name` ("the
/// inf floor").
[[nodiscard]] schema::Result<void> check_floor_identity(const gpu::CaptureIdentity& first,
                                                        const gpu::CaptureIdentity& second,
                                                        const gpu::CaptureIdentity& own,
                                                        std::string_view name);

/// Adds the figures of the floors, the digests of their tables and one sentence to a verdict that was decided
/// by `limit`.
void note_floor(const FloorLimit& limit, schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
