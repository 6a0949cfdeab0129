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

/// The report on `table`, which was measured from `inputs`: summaries of the corpus and of each slice, bounds,
/// diagnosis, and, with a contract, the verdict of every clause that captures can decide. The clauses are
/// decided at the contract's whole level α, since nothing is spent. The report refers to `inputs` and `table`, which
/// must outlive it.
[[nodiscard]] DriftReport make_report(const Inputs& inputs, const gpu::MeasurementTable& table,
                                      const ReportContext& context);

}  // namespace driftgate::drift
