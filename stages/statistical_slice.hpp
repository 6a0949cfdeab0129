#pragma once

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// Decides the clauses whose stages include statistical-slice (family S by default) on the table of the
/// slice corpus: on the corpus, on each critical slice (each must pass at α; violated by Holm over
/// clauses × slices) and on each monitored slice (harm by Holm at family level α; inconclusive ones are
/// listed and do not block). Outcome clauses pair `correct_train` and `correct_inf` of the infos.
/// Combinations of attributes are searched (`discover_slices`) and compared with the rest of the corpus
/// (`compare_with_rest`) where the contract says so. Reports rank slices
/// by excess, with their intervals, and name what the average hid.
[[nodiscard]] StageReport evaluate_statistical_slice(const schema::Contract& contract,
                                                     const gpu::MeasurementTable& table,
                                                     const StageInputs& inputs);

}  // namespace driftgate::stages
