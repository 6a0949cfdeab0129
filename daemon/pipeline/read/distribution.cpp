#include "daemon/pipeline/read/distribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "daemon/base/json_members.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/cumulative.hpp"
#include "gpu/table/summary.hpp"
#include "schema/json.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::pipeline {
namespace {

using gpu::MeasurementTable;
using nlohmann::json;
using schema::ErrorCode;
using schema::Metric;

using Table = std::shared_ptr<const MeasurementTable>;

/// A stage's newest report, as far as it names tables.
struct Named {
  store::StageKey key;
  std::uint64_t evidence_seq = 0;
  std::string table;                          ///< digest
  std::map<std::string, std::string> floors;  ///< digests by side
};

schema::Result<Named> named_tables(store::Reader& reader, const std::string& promotion,
                                   const std::string& stage) {
  const auto row = TRY(store::get_promotion(reader, promotion));
  auto runs = TRY(store::list_stage_runs(reader, promotion));
  std::erase_if(runs,
                [&](const store::StageRunRow& run) { return run.key.stage != stage || run.report.empty(); });
  Named named;
  json report;
  if (!runs.empty()) {
    const auto blob = TRY(store::find_blob(reader, runs.back().report));
    if (blob) report = json::parse(blob->bytes, nullptr, false);
    named.key = runs.back().key;
    named.evidence_seq = static_cast<std::uint64_t>(std::max<std::int64_t>(row.evidence_seq, 0));
    named.table = base::text_at(report, "table_digest");
  }
  if (named.table.empty()) {
    return schema::fail(
        ErrorCode::not_found,
        fmt::format("promotion {} has no measurement of stage {}: there is no report of it yet, or "
                    "the stage measures no rows",
                    promotion, stage));
  }
  if (const json* floors = base::member(report, "floors"); floors != nullptr && floors->is_array()) {
    for (const json& floor : *floors)
      named.floors[base::text_at(floor, "side")] = base::text_at(floor, "table_digest");
  }
  return named;
}

/// Null where the store does not hold the table. It is asked each time: a redaction destroys the stored
/// bytes, and what was parsed of them must not be shown any more.
schema::Result<Table> find_table(store::Store& store, TableCache& cache, const std::string& digest) {
  const bool stored = TRY(store::look_up(store, store::has_blob, digest));
  if (!stored) return Table();
  if (auto known = cache.find(digest)) return *known;
  const auto blob = TRY(store::look_up(store, store::find_blob, digest));
  if (!blob) return Table();
  auto parsed = TRY(gpu::deserialise(blob->bytes));
  Table table = std::make_shared<const MeasurementTable>(std::move(parsed));
  cache.put(digest, table, blob->bytes.size());
  return table;
}

json quantiles_json(std::span<const std::pair<const char*, double>> quantiles) {
  json out = json::object();
  for (const auto& [name, value] : quantiles)
    if (!std::isnan(value)) out[name] = value;
  return out;
}

json number(double value) {
  return std::isnan(value) ? json(nullptr) : json(value);
}

/// The edges are those of bins: none lies outside the values that were seen.
json curve_json(const gpu::Cumulative& curve, double min, double max) {
  json edges = json::array();
  for (const double edge : curve.edges)
    edges.push_back(std::isfinite(edge) ? std::clamp(edge, min, max) : edge);
  return {{"edges", std::move(edges)}, {"cdf", curve.shares}};
}

/// The means of the sequences of a slice, for one that has no histogram.
json sequence_distribution(const MeasurementTable& table, const schema::SliceWhere& where,
                           std::size_t metric) {
  std::vector<double> means;
  for (const std::size_t i : stages::select_sequences(table, where)) {
    const auto& moments = table.sequences[i].metrics[metric];
    if (moments.n > 0 && !std::isnan(moments.mean())) means.push_back(moments.mean());
  }
  if (means.empty()) return nullptr;
  std::ranges::sort(means);
  const auto at = [&](double p) {
    const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(means.size()) - 1e-9));
    return means[std::clamp<std::size_t>(rank, 1, means.size()) - 1];
  };
  const std::array<std::pair<const char*, double>, 4> quantiles{
      {{"0.5", at(0.5)}, {"0.9", at(0.9)}, {"0.95", at(0.95)}, {"0.99", at(0.99)}}};
  json value = curve_json(gpu::cumulative(means, kMaxEdges), means.front(), means.back());
  value["unit"] = "sequences";
  value["n"] = means.size();
  value["min"] = means.front();
  value["max"] = means.back();
  value["quantiles"] = quantiles_json(quantiles);
  return value;
}

json row_distribution(const gpu::Histogram& histogram, const gpu::MetricSummary& figures) {
  const std::array<std::pair<const char*, double>, 5> quantiles{{{"0.5", figures.p50},
                                                                 {"0.9", figures.p90},
                                                                 {"0.95", figures.p95},
                                                                 {"0.99", figures.p99},
                                                                 {"0.999", figures.p99_9}}};
  json value = curve_json(gpu::cumulative(histogram, kMaxEdges), figures.min, figures.max);
  value["unit"] = "rows";
  value["n"] = figures.n;
  value["min"] = figures.min;
  value["max"] = figures.max;
  value["quantiles"] = quantiles_json(quantiles);
  return value;
}

/// Null where the table has no figure of the metric in the slice. `summary` is that of the slice.
json distribution_json(const MeasurementTable& table, const schema::SliceWhere& where, Metric metric,
                       const gpu::Summary& summary) {
  const auto index = static_cast<std::size_t>(metric);
  const auto& figures = summary.metrics[index];
  const auto slice = std::ranges::find(table.slices, where, &gpu::SliceHistograms::where);
  const bool counted = slice != table.slices.end() && slice->histograms[index].count() > 0 && figures.n > 0;
  json value = counted ? row_distribution(slice->histograms[index], figures)
                       : sequence_distribution(table, where, index);
  for (const auto& bounds : summary.bounds) {
    if (bounds.metric != metric || bounds.n == 0) continue;
    if (value.is_null()) value = {{"unit", "bounds"}, {"n", bounds.n}};
    value["mean_lower"] = number(bounds.mean_lower);
    value["mean_upper"] = number(bounds.mean_upper);
  }
  if (value.is_null()) return value;
  value["mean"] = number(figures.mean);
  value["sequence_mean"] = number(figures.sequence_mean);
  value["rows"] = summary.rows;
  value["sequences"] = summary.sequences;
  value["kernels"] = {{"train", table.train.kernel}, {"inf", table.inf.kernel}};
  return value;
}

/// Sum and count of the metric in a bucket; nothing for metrics that profiles have no figure of.
std::optional<std::pair<double, std::uint64_t>> figure_of(const gpu::ProfileBucket& bucket, Metric metric) {
  switch (metric) {
    case Metric::tv:
      return std::pair(bucket.tv, bucket.rows);
    case Metric::kl_inf_train:
      return std::pair(bucket.kl_inf_train, bucket.rows);
    case Metric::logit_rms:
      return std::pair(bucket.logit_rms, bucket.rows);
    case Metric::top1_flip:
      return std::pair(static_cast<double>(bucket.top1_flips), bucket.rows);
    case Metric::log_ratio:  // its absolute value
      return std::pair(bucket.abs_log_ratio, bucket.tokens);
    default:
      return std::nullopt;
  }
}

/// The buckets with rows; from_of(i) is where bucket i begins, and null where the last one ends.
template <std::size_t N, typename FromOf>
json buckets_json(const std::array<gpu::ProfileBucket, N>& buckets, Metric metric, FromOf from_of) {
  json list = json::array();
  for (std::size_t i = 0; i < N; ++i) {
    const auto figure = figure_of(buckets[i], metric);
    if (!figure || figure->second == 0) continue;
    list.push_back({{"from", from_of(i)},
                    {"to", from_of(i + 1)},
                    {"rows", figure->second},
                    {"mean", figure->first / static_cast<double>(figure->second)}});
  }
  return list;
}

/// A table keeps these for all its rows and for no slice.
json profile_json(const MeasurementTable& table, Metric metric) {
  if (!figure_of({}, metric)) return nullptr;
  const auto edge = [](const auto& edges, std::size_t i, double last) {
    return i == 0 ? json(0) : i <= edges.size() ? json(edges[i - 1]) : number(last);
  };
  const auto position = [](std::size_t i) {
    return i < gpu::kPositionBuckets ? json(gpu::first_position(i)) : json(nullptr);
  };
  const auto entropy = [&](std::size_t i) { return edge(gpu::kEntropyEdges, i, std::nan("")); };
  const auto probability = [&](std::size_t i) { return edge(gpu::kProbabilityEdges, i, 1); };
  return {{"slice", ""},
          {"position", buckets_json(table.profile.by_position, metric, position)},
          {"entropy", buckets_json(table.profile.by_entropy, metric, entropy)},
          {"probability", buckets_json(table.profile.by_probability, metric, probability)}};
}

/// Of the rows that the table keeps as its worst those in the slice, by the metric; rows without a figure
/// first.
json worst_json(const MeasurementTable& table, const schema::SliceWhere& where, Metric metric) {
  std::map<std::int64_t, const gpu::SequenceInfo*> infos;
  for (const std::size_t i : stages::select_sequences(table, where))
    infos.emplace(table.sequences[i].sequence, i < table.infos.size() ? &table.infos[i] : nullptr);
  const auto index = static_cast<std::size_t>(metric);
  std::vector<const gpu::WorstRow*> rows;
  for (const auto& row : table.worst_rows)
    if (infos.contains(row.sequence)) rows.push_back(&row);
  std::ranges::stable_sort(rows, [&](const gpu::WorstRow* a, const gpu::WorstRow* b) {
    const double x = a->values[index], y = b->values[index];
    return std::isnan(x) != std::isnan(y) ? std::isnan(x) : x > y;
  });
  if (rows.size() > kMaxWorst) rows.resize(kMaxWorst);
  const auto bounded = table.bounded(metric);
  json list = json::array();
  for (const auto* row : rows) {
    const auto* const info = infos.at(row->sequence);
    list.push_back({{"row", row->row},
                    {"value", row->values[index]},
                    {"sequence", row->sequence},
                    {"id", info != nullptr ? info->id : std::string()},
                    {"position", row->position},
                    {"token", row->token},
                    {"token_text", nullptr},
                    {"slice", info != nullptr ? schema::slice_text(info->slices) : std::string()},
                    {"kl_before", row->kl_before},
                    {"kl_after", row->kl_after}});
    if (bounded && *bounded < row->upper.size()) list.back()["upper"] = row->upper[*bounded];
  }
  return list;
}

schema::Result<Metric> row_metric(const std::string& name) {
  const auto metric = schema::metric_from_name(name);
  if (metric && static_cast<std::size_t>(*metric) < schema::kRowMetricCount) return *metric;
  return schema::fail(ErrorCode::invalid_argument,
                      fmt::format("'{}' is no metric of rows, such as tv, kl_inf_train or logit_span", name),
                      "metric");
}

}  // namespace

schema::Result<View> distribution_view(store::Store& store, TableCache& cache,
                                       const DistributionRequest& request) {
  const auto metric = TRY(row_metric(request.metric));
  const auto where = stages::parse_slice(request.slice);
  if (schema::slice_text(where).empty() != request.slice.empty()) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("'{}' is no slice, such as domain=code;language=de", request.slice),
                        "slice");
  }
  const auto named = TRY(store::look_up(store, named_tables, request.promotion, request.stage));
  const auto table = TRY(find_table(store, cache, named.table));
  if (!table) {
    return schema::fail(
        ErrorCode::not_found,
        fmt::format("the measurement table {} of stage {} is not stored: it was too large, or it was "
                    "redacted",
                    named.table, request.stage));
  }
  if (stages::select_sequences(*table, where).empty()) {
    return schema::fail(ErrorCode::not_found, fmt::format("stage {} measured no sequence of slice {}",
                                                          request.stage, request.slice));
  }
  json floors{{"train", nullptr}, {"inf", nullptr}};
  for (const auto& [side, digest] : named.floors) {
    const auto floor = TRY(find_table(store, cache, digest));
    if (floor) floors[side] = distribution_json(*floor, where, metric, gpu::summarise(*floor, where));
  }
  const auto summary = gpu::summarise(*table, where);
  const json value{{"promotion", request.promotion},
                   {"stage", named.key.stage},
                   {"attempt", named.key.attempt},
                   {"table_digest", named.table},
                   {"metric", schema::to_string(metric)},
                   {"slice", schema::slice_text(where)},
                   {"rows", summary.rows},
                   {"sequences", summary.sequences},
                   {"candidate", distribution_json(*table, where, metric, summary)},
                   {"floors", std::move(floors)},
                   {"by", profile_json(*table, metric)},
                   {"worst", worst_json(*table, where, metric)}};
  return View{named.key.text(), named.evidence_seq, false, schema::canonical_json(value)};
}

}  // namespace driftgate::pipeline
