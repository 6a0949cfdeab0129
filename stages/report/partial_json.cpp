#include "stages/report/partial_json.hpp"

#include <nlohmann/json.hpp>

#include "schema/json.hpp"

namespace driftgate::stages {

using nlohmann::json;

std::string bound_metrics_json(const gpu::Summary& summary) {
  json out = json::object();
  for (const gpu::BoundSummary& bound : summary.bounds) {
    if (bound.n == 0) continue;
    out[std::string(schema::to_string(bound.metric))] = {{"n", bound.n},
                                                         {"mean_lower", bound.mean_lower},
                                                         {"mean_upper", bound.mean_upper},
                                                         {"sequence_mean_lower", bound.sequence_mean_lower},
                                                         {"sequence_mean_upper", bound.sequence_mean_upper},
                                                         {"min_lower", bound.min_lower},
                                                         {"min_upper", bound.min_upper},
                                                         {"max_lower", bound.max_lower},
                                                         {"max_upper", bound.max_upper}};
  }
  return schema::canonical_json(out);
}

std::string findings_json(const gpu::MeasurementTable& table) {
  json findings = json::array();
  for (const gpu::CaptureFinding& finding : table.partial.findings) {
    findings.push_back({{"name", finding.name},
                        {"side", finding.side},
                        {"decides", finding.decides},
                        {"count", finding.count},
                        {"of", finding.of},
                        {"text", finding.text}});
  }
  return schema::canonical_json(findings);
}

std::string partial_json(const gpu::MeasurementTable& table, const gpu::Summary& corpus) {
  return schema::canonical_json({{"mode", table.partial.mode},
                                 {"listed", table.partial.listed},
                                 {"tail_train", corpus.tail_train},
                                 {"tail_inf", corpus.tail_inf},
                                 {"unknown_rows", table.partial.unknown_rows},
                                 {"findings", json::parse(findings_json(table))}});
}

std::string upper_json(const gpu::MeasurementTable& table, const gpu::WorstRow& row) {
  json out = json::object();
  for (std::size_t i = 0; i < row.upper.size(); ++i) {
    out[std::string(schema::to_string(table.partial.metrics.at(i)))] = row.upper[i];
  }
  return schema::canonical_json(out);
}

}  // namespace driftgate::stages
