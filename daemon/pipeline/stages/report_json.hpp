#pragma once

#include <string>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::pipeline {

/// A stage's report as it is kept and served: {"stage", "verdict", "alpha", "seed", "code_version",
/// "contract", "table_digest", "verdicts", "bounds", "ranking", "slices", "worst_rows", "floors", "notes",
/// "nothing_demanded"}. `table` may be null when nothing was measured. Each metric of a slice has the mean
/// of the same slice at each floor beside it: "floor": {"train": …, "inf": …}.
[[nodiscard]] std::string report_json(const stages::StageReport& report, const gpu::MeasurementTable* table,
                                      const schema::Contract& contract, const stages::Floors& floors = {});

}  // namespace driftgate::pipeline
