#include "daemon/pipeline/stages/report_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "gpu/table/summary.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "stages/bounds/bounds_json.hpp"
#include "stages/diagnosis/diagnosis.hpp"
#include "stages/ranking.hpp"
#include "stages/report/partial_json.hpp"
#include "stages/slices/slice_search.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

std::string metric_name(std::size_t i) {
  return std::string(schema::to_string(static_cast<schema::Metric>(i)));
}

json summary_json(const gpu::Summary& summary) {
  json metrics = json::object();
  for (std::size_t i = 0; i < schema::kRowMetricCount; ++i) {
    const auto& figures = summary.metrics[i];
    if (figures.n == 0) continue;
    metrics[metric_name(i)] = {
        {"n", figures.n},     {"mean", figures.mean}, {"sequence_mean", figures.sequence_mean},
        {"min", figures.min}, {"max", figures.max},   {"p50", figures.p50},
        {"p99", figures.p99}};
  }
  metrics.update(json::parse(stages::bound_metrics_json(summary)));
  return {{"where", summary.where},
          {"rows", summary.rows},
          {"sequences", summary.sequences},
          {"metrics", std::move(metrics)}};
}

/// Puts the floor's mean of the same slice beside each metric.
void put_floor_means(json& metrics, const gpu::Summary& floor, std::string_view side) {
  for (std::size_t i = 0; i < schema::kRowMetricCount; ++i) {
    const auto name = metric_name(i);
    if (floor.metrics[i].n == 0 || !metrics.contains(name)) continue;
    metrics[name]["floor"][std::string(side)] = floor.metrics[i].mean;
  }
}

json slices_json(const gpu::MeasurementTable& table, const stages::Floors& floors) {
  json list = json::array();
  for (const auto& slice : table.slices) {
    json value = summary_json(gpu::summarise(table, slice.where));
    for (const auto side : stages::kFloorSides) {
      const auto* floor = floors.of(side).table;
      if (floor == nullptr) continue;
      put_floor_means(value["metrics"], gpu::summarise(*floor, slice.where), stages::to_string(side));
    }
    list.push_back(std::move(value));
  }
  return list;
}

json floors_json(const stages::Floors& floors) {
  json list = json::array();
  for (const auto side : stages::kFloorSides) {
    const auto& floor = floors.of(side);
    if (floor.table == nullptr) continue;
    list.push_back({{"side", stages::to_string(side)},
                    {"kernel", floor.table->train.kernel},
                    {"table_digest", floor.digest},
                    {"captures", {floor.table->train.file_digest, floor.table->inf.file_digest}},
                    {"rows", floor.table->rows},
                    {"sequences", floor.table->sequences.size()}});
  }
  return list;
}

/// The verdicts on one slice, in short.
json tests_json(const stages::StageReport& report, const schema::SliceWhere& where) {
  json tests = json::array();
  for (const auto& verdict : report.clauses) {
    if (verdict.where != where) continue;
    json test{{"clause", verdict.clause}, {"verdict", schema::to_string(verdict.verdict)}};
    if (verdict.estimate) test["estimate"] = *verdict.estimate;
    if (verdict.lower) test["lower"] = *verdict.lower;
    if (verdict.upper) test["upper"] = *verdict.upper;
    tests.push_back(std::move(test));
  }
  return tests;
}

/// The means of every slice that the table has no histograms of.
void add_others(const stages::StageReport& report, const gpu::MeasurementTable& table,
                const schema::Contract& contract, json& slices) {
  std::set<schema::SliceWhere> known;
  for (const auto& slice : table.slices) known.insert(slice.where);
  for (const auto& [where, role] : stages::other_slices(table, contract.slices, report.clauses, known)) {
    json slice = summary_json(gpu::summarise(table, where));
    for (auto& figures : slice["metrics"]) {
      for (const char* absent : {"p50", "p99"}) figures.erase(absent);
    }
    slice["role"] = schema::to_string(role);
    slices.push_back(std::move(slice));
  }
}

/// Gives each slice its role and its verdicts.
void put_roles(const stages::StageReport& report, const schema::Contract& contract, json& slices) {
  for (json& slice : slices) {
    const auto where = slice["where"].get<schema::SliceWhere>();
    const bool critical =
        std::ranges::find(contract.slices.critical, where) != contract.slices.critical.end();
    const auto role = where.empty() ? schema::SliceRole::corpus
                      : critical    ? schema::SliceRole::critical
                                    : schema::SliceRole::monitored;
    if (!slice.contains("role")) slice["role"] = schema::to_string(role);
    slice["test"] = tests_json(report, where);
  }
}

json worst_json(const gpu::MeasurementTable& table) {
  json list = json::array();
  for (const auto& row : table.worst_rows) {
    json values = json::object();
    for (std::size_t i = 0; i < schema::kRowMetricCount; ++i) values[metric_name(i)] = row.values[i];
    list.push_back({{"row", row.row},
                    {"sequence", row.sequence},
                    {"position", row.position},
                    {"token", row.token},
                    {"kl_before", row.kl_before},
                    {"kl_after", row.kl_after},
                    {"values", std::move(values)}});
    if (!row.upper.empty()) list.back()["upper"] = json::parse(stages::upper_json(table, row));
  }
  return list;
}

}  // namespace

std::string report_json(const stages::StageReport& report, const gpu::MeasurementTable* table,
                        const schema::Contract& contract, const stages::Floors& floors) {
  json clauses = json::array();
  for (const auto& clause : report.clauses) clauses.push_back(json::parse(schema::to_json(clause)));
  json value{{"stage", schema::to_string(report.stage)},
             {"verdict", schema::to_string(report.verdict)},
             {"alpha", report.alpha},
             {"seed", fmt::format("{:016x}", report.seed)},
             {"code_version", report.code_version},
             {"rules", report.rules},
             {"contract", contract.digest},
             {"verdicts", std::move(clauses)},
             {"bounds", json::parse(stages::bounds_json(report.bounds))},
             {"ranking", json::parse(stages::ranking_json(report.ranking))},
             {"notes", report.notes},
             {"nothing_demanded", report.nothing_demanded},
             {"slices", json::array()},
             {"worst_rows", json::array()},
             {"floors", floors_json(floors)}};
  if (table != nullptr) {
    value["table_digest"] = schema::sha256_digest(gpu::serialise(*table));
    value["rows"] = table->rows;
    value["kernels"] = {{"train", table->train.kernel}, {"inf", table->inf.kernel}};
    value["slices"] = slices_json(*table, floors);
    add_others(report, *table, contract, value["slices"]);
    put_roles(report, contract, value["slices"]);
    value["worst_rows"] = worst_json(*table);
    if (report.verdict == schema::Verdict::violated)
      value["diagnosis"] = json::parse(stages::diagnosis_json(stages::diagnose(*table, floors), *table));
    if (!table->partial.mode.empty()) {
      value["partial"] = json::parse(stages::partial_json(*table, gpu::summarise(*table)));
    }
  }
  return schema::canonical_json(value);
}

}  // namespace driftgate::pipeline
