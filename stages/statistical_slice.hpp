#pragma once

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// Decides the clauses whose stages include statistical-slice (by default the statistical ones) on the table
/// of the slice corpus (docs/design/statistics.md, "Many slices").
/// - A clause without `slices` is decided on the corpus.
/// - Each critical slice must pass, at level α; a violation must withstand Holm's procedure over clauses ×
///   slices.
/// - Each monitored slice is tested for harm, by Holm's procedure at family level α. Inconclusive verdicts
///   are listed and do not block.
/// - Outcome clauses pair `correct_train` and `correct_inf` of the sequences.
/// - If the contract has `slices.discover`, combinations of attributes are searched (`discover_slices`) and
///   compared with the rest of the corpus (`compare_with_rest`).
///
/// The report ranks slices by excess and names those that the average hides. Never fails: what cannot be
/// decided is inconclusive or an error, with the reason.
[[nodiscard]] StageReport evaluate_statistical_slice(const schema::Contract& contract,
                                                     const gpu::MeasurementTable& table,
                                                     const StageInputs& inputs);

}  // namespace driftgate::stages
