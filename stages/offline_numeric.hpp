#pragma once

#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// Thresholds that the drift job must count rows beyond, so that the quantile clauses of `contract`
/// can be decided from its table. Without repetition, in the order of the clauses.
[[nodiscard]] std::vector<gpu::Threshold> required_thresholds(const schema::Contract& contract);

/// Slices whose histograms and bounds are wanted: the critical ones, then each single value of each
/// declared dimension that occurs in `infos` ("(missing)" where a sequence lacks it). At most 1,000.
[[nodiscard]] std::vector<schema::SliceWhere> wanted_slices(const schema::Contract& contract,
                                                            const std::vector<gpu::SequenceInfo>& infos);

/// Decides the clauses whose stages include offline-numeric (family N by default) on the table of the
/// numeric corpus, and gives the bound certificate. Never fails: what cannot be decided is a verdict
/// inconclusive or error with a reason.
[[nodiscard]] StageReport evaluate_offline_numeric(const schema::Contract& contract,
                                                   const gpu::MeasurementTable& table,
                                                   const StageInputs& inputs);

}  // namespace driftgate::stages
