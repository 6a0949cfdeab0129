#pragma once

#include <string>

#include "gpu/table/measurement.hpp"
#include "gpu/table/summary.hpp"

/// What reports say in JSON of captures that hold only a part of each distribution.
namespace driftgate::stages {

/// An object from the names of the bounded metrics to their figures: n, and lower and upper of mean,
/// sequence_mean, min and max. An upper bound that does not exist is "Infinity". Empty for full captures.
[[nodiscard]] std::string bound_metrics_json(const gpu::Summary& summary);

/// mode, listed, tail masses, unknown_rows and findings of a table whose `partial.mode` is set.
[[nodiscard]] std::string partial_json(const gpu::MeasurementTable& table, const gpu::Summary& corpus);

/// An object from the bounded metrics to a row's upper bounds; its `values` are the lower ones.
[[nodiscard]] std::string upper_json(const gpu::MeasurementTable& table, const gpu::WorstRow& row);

}  // namespace driftgate::stages
