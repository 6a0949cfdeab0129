#pragma once

#include <string>

#include "gpu/table/measurement.hpp"
#include "gpu/table/summary.hpp"

/// The parts of JSON reports on findings, and on captures that hold only a part of each distribution.
namespace driftgate::stages {

/// An object from the names of the bounded metrics to their figures: n, and the lower and upper bounds of
/// mean, sequence_mean, min and max. An upper bound that does not exist is "Infinity". Empty for full
/// captures.
[[nodiscard]] std::string bound_metrics_json(const gpu::Summary& summary);

/// The findings about the captures: an array of objects with name, side, decides, count, of and text.
[[nodiscard]] std::string findings_json(const gpu::MeasurementTable& table);

/// The mode, list length, tail masses, unknown_rows and findings of a table whose `partial.mode` is set.
[[nodiscard]] std::string partial_json(const gpu::MeasurementTable& table, const gpu::Summary& corpus);

/// An object from the names of the bounded metrics to the upper bounds of one row. Its `values` are the lower
/// bounds.
[[nodiscard]] std::string upper_json(const gpu::MeasurementTable& table, const gpu::WorstRow& row);

}  // namespace driftgate::stages
