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

/// Whose noise a floor measures: two runs of K_train, or of K_inf, batched differently.
enum class FloorSide : std::uint8_t { train, inf };
inline constexpr FloorSide kFloorSides[] = {FloorSide::train, FloorSide::inf};
/// "train", "inf".
[[nodiscard]] std::string_view to_string(FloorSide side);

/// The drift between two runs of one kernel on one corpus (docs/design/statistics.md, "Noise floor").
struct Floor {
  const gpu::MeasurementTable* table = nullptr;  ///< not owned; nothing = not measured
  std::string digest;  ///< "sha256:…" of the table's bytes; empty when it is not kept
};

/// The floors that a stage was given.
struct Floors {
  Floor train{}, inf{};
  [[nodiscard]] const Floor& of(FloorSide side) const { return side == FloorSide::train ? train : inf; }
  [[nodiscard]] bool any() const { return train.table != nullptr || inf.table != nullptr; }
};

/// One floor in the subject of a clause. `lower` is its lower confidence limit: 0 when the data support no
/// other, and why in `undecidable`.
struct FloorFigure {
  FloorSide side{};
  std::optional<double> estimate;
  double lower = 0;
  std::string method, undecidable, digest;
};

/// What a clause with floor_multiple is held to: max(`max`, multiple × the largest `lower`), never over the
/// cap. The level is halved: one half for the drift, the other, shared by the floors, for their limits.
struct FloorLimit {
  double limit = 0;
  double max = 0, multiple = 1, cap = 0;  ///< as the contract states them
  double alpha = 0;                       ///< left for the drift
  double floor_alpha = 0;                 ///< of each floor's limit
  std::vector<FloorFigure> floors;
};

/// The limits that a quantile clause with floor_multiple may be held to beside `max`: a grid up to the cap,
/// since rows are counted beyond thresholds that are known before the floor is. Ascending.
[[nodiscard]] std::vector<double> floor_limit_grid(const schema::Limits& limits);
/// Thresholds that a floor's table must count rows beyond: the grid over the multiple, for each quantile
/// clause with floor_multiple. Without repetition.
[[nodiscard]] std::vector<gpu::Threshold> floor_thresholds(const schema::Contract& contract);

/// The limit of a clause with floor_multiple on the sequences that match `where`. A quantile's floor is
/// proven step by step along the grid, each step at the whole level: the steps are ordered, so the first
/// that is not proven ends it. Errors (`not_found`, `invalid_argument`, `unsupported`) say which capture is
/// missing or what the floor's table lacks, and how to make it.
[[nodiscard]] schema::Result<FloorLimit> floor_limit(const Floors& floors, const schema::Clause& clause,
                                                     const schema::MetricSubject& subject,
                                                     const schema::SliceWhere& where, const MeanRules& rules,
                                                     double alpha, std::uint64_t seed);

/// Refuses (`not_comparable`) a floor whose captures are not of the kernel, checkpoint and corpus of `own`,
/// the capture of the drift that it stands beside. `name` begins the message: "the inf floor".
[[nodiscard]] schema::Result<void> check_floor_identity(const gpu::CaptureIdentity& first,
                                                        const gpu::CaptureIdentity& second,
                                                        const gpu::CaptureIdentity& own,
                                                        std::string_view name);

/// Adds the floor's figures, the tables' digests and one sentence to a verdict that was decided by `limit`.
void note_floor(const FloorLimit& limit, schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
