#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::stages::make {

/// One sequence of a table made by hand: `rows` rows that all have the same tv (and a span and KL that
/// agree with it), with slices.
struct Sequence {
  std::uint32_t rows = 10;
  double tv = 0.01;
  std::map<std::string, std::string> slices;
};

inline std::size_t at(schema::Metric metric) {
  return static_cast<std::size_t>(metric);
}

inline gpu::Moments constant(std::uint32_t rows, double value) {
  gpu::Moments moments;
  for (std::uint32_t i = 0; i < rows; ++i) moments.add(value);
  return moments;
}

inline void append(gpu::MeasurementTable& table, const Sequence& sequence) {
  gpu::SequenceRow row;
  row.sequence = static_cast<std::int64_t>(table.sequences.size());
  row.rows = sequence.rows;
  row.metrics[at(schema::Metric::tv)] = constant(sequence.rows, sequence.tv);
  row.metrics[at(schema::Metric::logit_span)] = constant(sequence.rows, 5 * sequence.tv);
  row.metrics[at(schema::Metric::kl_train_inf)] = constant(sequence.rows, 3 * sequence.tv * sequence.tv);
  row.metrics[at(schema::Metric::kl_inf_train)] = constant(sequence.rows, 2.5 * sequence.tv * sequence.tv);
  row.metrics[at(schema::Metric::top1_flip)] = constant(sequence.rows, 0);
  row.metrics[at(schema::Metric::nonfinite)] = constant(sequence.rows, 0);
  for (const gpu::Threshold& threshold : table.thresholds) {
    const double value = row.metrics[at(threshold.metric)].mean();
    const bool beyond = threshold.above ? value > threshold.value : value < threshold.value;
    row.beyond.push_back(beyond ? sequence.rows : 0);
  }
  gpu::SequenceInfo info;
  info.sequence = row.sequence;
  info.slices = sequence.slices;
  table.rows += sequence.rows;
  table.sequences.push_back(row);
  table.infos.push_back(info);
}

inline gpu::MeasurementTable table(std::vector<gpu::Threshold> thresholds = {}) {
  gpu::MeasurementTable result;
  result.vocabulary = 256;
  result.thresholds = std::move(thresholds);
  return result;
}

inline schema::Clause clause(schema::Family family, std::string id, schema::Subject subject,
                             schema::Limits limits, schema::Stage stage) {
  schema::Clause result;
  result.family = family;
  result.id = std::move(id);
  result.subject = std::move(subject);
  result.limits = limits;
  result.stages = schema::stage_bit(stage);
  return result;
}

inline schema::Limits max(double value) {
  schema::Limits limits;
  limits.max = value;
  return limits;
}

inline schema::Clause numeric(std::string id, schema::Metric metric, schema::Aggregate aggregate,
                              schema::Limits limits) {
  return clause(schema::Family::numerical, std::move(id), schema::MetricSubject{metric, aggregate}, limits,
                schema::Stage::offline_numeric);
}

inline schema::Clause slice_clause(std::string id, schema::Subject subject, schema::Limits limits,
                                   std::vector<schema::SliceRole> roles) {
  schema::Clause result = clause(schema::Family::statistical, std::move(id), std::move(subject), limits,
                                 schema::Stage::statistical_slice);
  result.slices = std::move(roles);
  return result;
}

inline schema::Clause traffic(std::string id, schema::Subject subject, schema::Limits limits,
                              schema::Stage stage) {
  return clause(schema::Family::runtime, std::move(id), std::move(subject), limits, stage);
}

/// A contract without clauses whose canary is that of the demo.
inline schema::Contract contract() {
  schema::Contract result;
  result.name = "made";
  result.digest = "sha256:made";
  result.slices.dimensions = {"language"};
  result.slices.min_sequences = 100;
  schema::CanaryPlan plan;
  plan.steps = {{1'000, false}, {5'000, true}, {10'000, false}};
  plan.soak_ms = 5'000;
  plan.bake_ms = 5'000;
  plan.min_keys = 60;
  result.canary = plan;
  return result;
}

}  // namespace driftgate::stages::make
