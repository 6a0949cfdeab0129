#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/ranks/shard_choice.hpp"
#include "gpu/table/measurement.hpp"
#include "gpu/table/summary.hpp"
#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/bounds/bounds.hpp"
#include "stages/clauses/floor.hpp"
#include "stages/diagnosis/diagnosis.hpp"
#include "stages/report/report.hpp"

namespace driftgate::drift {

/// A slice as `drift` reports it.
struct DriftSlice {
  gpu::Summary summary;
  schema::SliceRole role = schema::SliceRole::described;  ///< without a contract: no clause looks at it
};

/// The drift of one kernel against itself, which the drift between the two kernels stands beside.
struct DriftFloor {
  stages::FloorSide side{};
  std::string kernel;
  std::uint64_t nonfinite_rows = 0;
  gpu::Summary corpus;
};

/// Everything that `driftgate drift` says, in text and in JSON.
struct DriftReport {
  std::string device;
  std::optional<gpu::ShardChoice> shard;  ///< how several ranks shared the work; absent for one
  const gpu::MeasurementTable* table = nullptr;
  gpu::Summary corpus;
  std::vector<DriftSlice> slices;
  std::vector<DriftFloor> floors;          ///< those that were given
  std::vector<stages::BoundChain> bounds;  ///< [0] is the corpus
  std::string bounds_note;                 ///< which slices have none, or empty
  stages::Floors floor_tables;             ///< the same, as the bounds and the diagnosis read them
  stages::Diagnosis diagnosis;
  double alpha = 0;  ///< of the bounds' limits
  std::uint64_t seed = 0;
  bool has_contract = false;
  std::string contract_name, contract_digest;
  schema::Verdict verdict = schema::Verdict::pass;
  std::vector<schema::ClauseVerdict> verdicts;
  std::vector<stages::SliceRank> ranking;  ///< of the clauses on slices, worst excess first
  std::vector<std::string> not_evaluated;  ///< addresses of clauses that captures can not decide
  std::vector<std::string> warnings, notes;
};

/// The report as JSON: `rows`, `sequences`, `shard` (of several ranks), `metrics`, `slices[]`, `floors[]`,
/// `bounds[]`, `verdicts[]`, `ranking[]`, `diagnosis`, `worst_rows[]`. Numbers that are not finite are the
/// strings of docs/design/measurement.md, "Numbers that are not finite".
[[nodiscard]] std::string drift_json(const DriftReport& report);

/// What `driftgate drift` exits with for a verdict: 0 pass, 1 violated, 3 inconclusive, 4 error.
[[nodiscard]] int exit_code_of(schema::Verdict verdict);

}  // namespace driftgate::drift
