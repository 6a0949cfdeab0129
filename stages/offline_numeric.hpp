#pragma once

#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// The thresholds beyond which a drift job must count rows so that the quantile clauses of `contract` can be
/// decided from its table. Without repetition, in the order of the clauses.
[[nodiscard]] std::vector<gpu::Threshold> required_thresholds(const schema::Contract& contract);

/// The slices for which histograms and bounds are wanted: the critical ones, then the monitored ones
/// (monitored_slices). At most kMaxSlices of selection.hpp.
[[nodiscard]] std::vector<schema::SliceWhere> wanted_slices(const schema::Contract& contract,
                                                            const std::vector<gpu::SequenceInfo>& infos);

/// Decides the clauses whose stages include offline-numeric (by default the numerical ones) on the table of
/// the numeric corpus, and computes the bound chains. Never fails: what cannot be decided is inconclusive or
/// an error, with the reason.
[[nodiscard]] StageReport evaluate_offline_numeric(const schema::Contract& contract,
                                                   const gpu::MeasurementTable& table,
                                                   const StageInputs& inputs);

}  // namespace driftgate::stages
