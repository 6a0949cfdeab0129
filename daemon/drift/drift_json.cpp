#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "daemon/drift/drift_report.hpp"
#include "stages/bounds/bounds_json.hpp"
#include "stages/ranking.hpp"
#include "stages/report/partial_json.hpp"

namespace driftgate::drift {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json metric_json(const gpu::MetricSummary& m) {
  return {{"n", m.n},
          {"mean", number(m.mean)},
          {"sequence_mean", number(m.sequence_mean)},
          {"min", number(m.min)},
          {"max", number(m.max)},
          {"p50", number(m.p50)},
          {"p90", number(m.p90)},
          {"p95", number(m.p95)},
          {"p99", number(m.p99)},
          {"p99_9", number(m.p99_9)}};
}

/// One figure is under `value`; several are under their names and once more together under `value`.
Json derived_json(const gpu::DerivedSummary& derived) {
  Json figures = Json::object();
  for (const auto& [path, value] : derived.figures) {
    const std::size_t dot = path.find('.');
    if (dot == std::string::npos) {
      figures[path] = number(value);
    } else {
      figures[path.substr(0, dot)][path.substr(dot + 1)] = number(value);
    }
  }
  Json out = figures;
  if (!out.contains("value")) out["value"] = std::move(figures);
  if (derived.descriptive) out["descriptive"] = true;
  return out;
}

Json metrics_json(const gpu::Summary& summary) {
  Json out = Json::object();
  for (std::size_t i = 0; i < gpu::kRowMetricCount; ++i) {
    if (summary.metrics[i].n == 0) continue;
    out[std::string(schema::to_string(static_cast<schema::Metric>(i)))] = metric_json(summary.metrics[i]);
  }
  for (const gpu::DerivedSummary& derived : summary.derived) {
    out[std::string(schema::to_string(derived.metric))] = derived_json(derived);
  }
  out.update(Json::parse(stages::bound_metrics_json(summary)));
  return out;
}

Json identity_json(const gpu::CaptureIdentity& identity) {
  return {{"kernel", identity.kernel},
          {"checkpoint_digest", identity.checkpoint_digest},
          {"corpus_digest", identity.corpus_digest},
          {"token_source", identity.token_source},
          {"sampling_filter", identity.sampling_filter},
          {"temperature", number(identity.temperature)}};
}

Json slice_json(const DriftReport& report, const DriftSlice& slice) {
  Json out = {{"where", slice.summary.where},
              {"role", schema::to_string(slice.role)},
              {"rows", slice.summary.rows},
              {"sequences", slice.summary.sequences},
              {"nonfinite_rows", slice.summary.nonfinite_rows},
              {"metrics", metrics_json(slice.summary)}};
  Json tests = Json::array();
  for (const schema::ClauseVerdict& verdict : report.verdicts) {
    if (verdict.where == slice.summary.where) tests.push_back(Json::parse(schema::to_json(verdict)));
  }
  if (!tests.empty()) out["test"] = std::move(tests);
  return out;
}

Json floors_json(const DriftReport& report) {
  Json out = Json::array();
  for (const DriftFloor& floor : report.floors) {
    out.push_back({{"side", stages::to_string(floor.side)},
                   {"kernel", floor.kernel},
                   {"rows", floor.corpus.rows},
                   {"sequences", floor.corpus.sequences},
                   {"nonfinite_rows", floor.nonfinite_rows},
                   {"metrics", metrics_json(floor.corpus)}});
  }
  return out;
}

/// The links of all chains in one list, each with its slice; `link` is its number in the chain.
Json bounds_json(const DriftReport& report) {
  Json out = Json::array();
  for (const Json& chain : Json::parse(stages::bounds_json(report.bounds))) {
    if (chain["refused"] != "") out.push_back({{"where", chain["where"]}, {"refused", chain["refused"]}});
    for (const Json& link : chain["links"]) {
      Json entry = {{"where", chain["where"]}, {"link", link["number"]}};
      entry.update(link);
      for (const char* absent : {"value", "upper"}) {
        if (!entry.contains(absent)) entry[absent] = nullptr;
      }
      out.push_back(std::move(entry));
    }
  }
  return out;
}

Json worst_json(const gpu::MeasurementTable& table) {
  std::unordered_map<std::int64_t, const gpu::SequenceInfo*> infos;
  for (const gpu::WorstRow& row : table.worst_rows) infos.emplace(row.sequence, nullptr);
  for (const gpu::SequenceInfo& info : table.infos) {
    if (const auto found = infos.find(info.sequence); found != infos.end()) found->second = &info;
  }
  Json out = Json::array();
  for (const gpu::WorstRow& row : table.worst_rows) {
    Json values = Json::object();
    for (std::size_t i = 0; i < gpu::kRowMetricCount; ++i) {
      values[std::string(schema::to_string(static_cast<schema::Metric>(i)))] = number(row.values[i]);
    }
    Json entry = {{"row", row.row}, {"sequence", row.sequence}, {"position", row.position}};
    if (table.has_tokens) entry["token"] = row.token;
    if (const gpu::SequenceInfo* info = infos.find(row.sequence)->second; info != nullptr) {
      if (!info->id.empty()) entry["id"] = info->id;
      if (!info->slices.empty()) entry["slices"] = info->slices;
    }
    entry["kl_before"] = number(row.kl_before);
    entry["kl_after"] = number(row.kl_after);
    entry["metrics"] = std::move(values);
    if (!row.upper.empty()) entry["upper"] = Json::parse(stages::upper_json(table, row));
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace

std::string drift_json(const DriftReport& report) {
  const gpu::MeasurementTable& table = *report.table;
  Json out = {{"train", identity_json(table.train)},
              {"inf", identity_json(table.inf)},
              {"device", report.device},
              {"rows", table.rows},
              {"sequences", table.sequences.size()},
              {"vocabulary", table.vocabulary},
              {"top_k", table.top_k},
              {"ppo_clip", number(table.ppo_clip)},
              {"nonfinite_rows", table.nonfinite_rows},
              {"sampled_by_inf", table.sampled_by_inf()},
              {"metrics", metrics_json(report.corpus)}};
  if (report.shard)
    out["shard"] = {{"mode", gpu::to_string(report.shard->shard)}, {"reason", report.shard->reason}};
  if (table.rows_on_cpu) out["rows_on_cpu"] = *table.rows_on_cpu;
  if (!table.partial.mode.empty()) {
    out["partial"] = Json::parse(stages::partial_json(table, report.corpus));
  } else if (std::ranges::any_of(table.partial.findings, &gpu::CaptureFinding::decides)) {
    out["findings"] = Json::parse(stages::findings_json(table));
  }
  out["slices"] = Json::array();
  for (const DriftSlice& slice : report.slices) out["slices"].push_back(slice_json(report, slice));
  out["floors"] = floors_json(report);
  out["bounds"] = bounds_json(report);
  if (report.has_contract) {
    out["contract"] = {{"name", report.contract_name}, {"digest", report.contract_digest}};
    out["verdict"] = schema::to_string(report.verdict);
  }
  out["verdicts"] = Json::array();
  for (const auto& verdict : report.verdicts)
    out["verdicts"].push_back(Json::parse(schema::to_json(verdict)));
  out["ranking"] = Json::parse(stages::ranking_json(report.ranking));
  out["not_evaluated"] = report.not_evaluated;
  out["diagnosis"] = Json::parse(stages::diagnosis_json(report.diagnosis, table));
  out["worst_rows"] = worst_json(table);
  out["warnings"] = report.warnings;
  out["notes"] = report.notes;
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace driftgate::drift
