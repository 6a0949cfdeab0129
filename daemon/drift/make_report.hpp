#pragma once

#include <optional>
#include <string>

#include "daemon/drift/drift_report.hpp"
#include "daemon/drift/inputs.hpp"
#include "gpu/ranks/shard_choice.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::drift {

/// How a table was measured, as far as a report says it.
struct ReportContext {
  bool core_metrics_only = false;
  std::string device;                    ///< what measured, in words
  std::optional<gpu::ShardChoice> shard; ///< how several ranks shared the work; absent for one
};

/// What a report says beside the table. What it refers to must outlive the call; the floors the report as
/// well.
struct ReportInputs {
  const schema::Contract* contract = nullptr;
  const MeasuredFloors& floors;
  bool has_tokens = false;  ///< whether the captures have target tokens
  bool partial = false;     ///< whether they are of partly known distributions
};

/// The report on `table`: summaries of the corpus and of each slice, bounds,
/// diagnosis, and, with a contract, the verdict of every clause that captures can decide. The clauses are
/// decided at the contract's whole level α, since nothing is spent. The report refers to `table`, which must
/// outlive it.
[[nodiscard]] DriftReport make_report(const ReportInputs& inputs, const gpu::MeasurementTable& table,
                                      const ReportContext& context);
/// The same for a table that was measured from `inputs`, which must outlive the report.
[[nodiscard]] DriftReport make_report(const Inputs& inputs, const gpu::MeasurementTable& table,
                                      const ReportContext& context);

}  // namespace driftgate::drift
