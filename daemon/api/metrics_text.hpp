#pragma once

#include <string>
#include <string_view>

#include "daemon/pipeline/service.hpp"

namespace driftgate::api {

/// Appends one figure in the Prometheus text format 0.0.4; `labels` is `name="value"` pairs or empty.
void append_metric(std::string& out, std::string_view name, std::string_view labels, double value);
/// `name="value"`, the value escaped, without what is no UTF-8, and cut to kMaxLabelBytes.
[[nodiscard]] std::string label(std::string_view name, std::string_view value);
inline constexpr std::size_t kMaxLabelBytes = 200;
/// Appends the HELP and TYPE lines of a metric.
void append_metric_head(std::string& out, std::string_view name, std::string_view type,
                        std::string_view help);

/// A metric that has one figure and no labels.
void append_single(std::string& out, std::string_view name, std::string_view type, std::string_view help,
                   double value);

/// The pipeline's figures.
[[nodiscard]] std::string service_metrics(const pipeline::ServiceFigures& figures);

}  // namespace driftgate::api
