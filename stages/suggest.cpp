#include "stages/suggest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>
#include <vector>

#include "gpu/summary.hpp"
#include "schema/contract.hpp"
#include "schema/least_n.hpp"
#include "schema/number_text.hpp"
#include "stages/metric_test.hpp"
#include "stages/selection.hpp"
#include "stages/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Aggregate;
using schema::Metric;
using schema::MetricSubject;

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kMostDimensions = 16;

/// What is usually limited, and where.
struct Wanted {
  const char* id;
  MetricSubject subject;
};
constexpr std::array kNumerical{
    Wanted{"kl", {Metric::kl_inf_train, Aggregate::sequence_mean}},
    Wanted{"tv", {Metric::tv, Aggregate::sequence_mean}},
    Wanted{"span-tail", {Metric::logit_span, Aggregate::p99}},
    Wanted{"greedy", {Metric::top1_flip, Aggregate::sequence_mean}},
};
constexpr std::array kStatistical{
    Wanted{"slice-tv", {Metric::tv, Aggregate::sequence_mean}},
    Wanted{"slice-top1", {Metric::top1_flip, Aggregate::sequence_mean}},
};

std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}

/// Up to two significant digits, never down: the limit is not to be below what it was made from.
double rounded_up(double value) {
  if (!(value > 0)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
  return std::stod(fmt::format("{:.6g}", std::ceil(value / unit - 1e-9) * unit));
}

/// What was measured of one metric on some sequences.
struct Figure {
  double estimate = 0, upper = 0;
  bool known = false;
};

Figure quantile_figure(const gpu::MeasurementTable& table, Metric metric, Aggregate quantile) {
  const gpu::MetricSummary summary = gpu::summarise(table).metrics[index_of(metric)];
  const double value = quantile == Aggregate::p99   ? summary.p99
                       : quantile == Aggregate::p95 ? summary.p95
                       : quantile == Aggregate::p90 ? summary.p90
                                                    : summary.p50;
  return {value, value, std::isfinite(value)};
}

/// The outermost quantile whose clause half of these sequences could prove.
Aggregate provable_quantile(const gpu::MeasurementTable& table, double alpha) {
  for (const Aggregate quantile : {Aggregate::p99, Aggregate::p95, Aggregate::p90}) {
    const auto least = schema::least_n_betting(tolerated_fraction(quantile, true), alpha);
    if (least && *least * 2 <= table.sequences.size()) return quantile;
  }
  return Aggregate::p50;
}

Figure figure_of(const gpu::MeasurementTable& table, const Selection& selection, const MetricSubject& subject,
                 double alpha) {
  if (subject.aggregate && schema::quantile_of(*subject.aggregate)) {
    return quantile_figure(table, subject.metric, *subject.aggregate);
  }
  const auto test = test_metric(table, selection, subject, {1, true}, {.means = schema::Means::approximate}, alpha,
                                kSeed);
  if (!test || test->n == 0) return {};
  return {test->estimate, test->upper.value_or(test->estimate), true};
}

/// One clause of the suggestion with its comment.
struct Line {
  std::string clause, comment;
};

std::string floor_text(const SuggestInputs& inputs, const MetricSubject& subject) {
  std::string text;
  const auto add = [&](const gpu::MeasurementTable* floor, const char* what) {
    if (floor == nullptr) return;
    const Figure noise = figure_of(*floor, select_sequences(*floor, {}), subject, inputs.alpha);
    if (noise.known) text += fmt::format(", {} {}", what, figure(noise.estimate));
  };
  add(inputs.floor_train, "floor of K_train");
  add(inputs.floor_inf, "floor of K_inf");
  return text;
}

/// The worst of the slices of the declared dimensions, or of the corpus.
struct Place {
  Figure worst;
  schema::SliceWhere where;
};

Place worst_place(const SuggestInputs& inputs, const MetricSubject& subject,
                  const std::vector<schema::SliceWhere>& slices) {
  const gpu::MeasurementTable& table = *inputs.table;
  Place place{figure_of(table, select_sequences(table, {}), subject, inputs.alpha), {}};
  for (const schema::SliceWhere& where : slices) {
    const Figure here = figure_of(table, select_sequences(table, where), subject, inputs.alpha);
    if (here.known && here.upper > place.worst.upper) place = {here, where};
  }
  return place;
}

std::optional<Line> clause_line(const SuggestInputs& inputs, const Wanted& wanted,
                                const std::vector<schema::SliceWhere>& slices, bool on_slices) {
  const Place place =
      worst_place(inputs, wanted.subject, on_slices ? slices : std::vector<schema::SliceWhere>{});
  if (!place.worst.known) return std::nullopt;
  const schema::MetricInfo& entry = schema::info(wanted.subject.metric);
  const double limit = std::min(rounded_up(place.worst.upper * inputs.headroom), entry.high);
  const std::string where = place.where.empty() ? "" : " on " + schema::slice_text(place.where);
  return Line{
      fmt::format("{{id: {}, metric: {}, aggregate: {}, max: {}{}}}", wanted.id, entry.name,
                  schema::to_string(*wanted.subject.aggregate), schema::number_text(limit),
                  on_slices && !slices.empty() ? ", slices: [monitored]" : ""),
      fmt::format("measured {}{}, at most {}{}; headroom {}×", figure(place.worst.estimate), where,
                  figure(place.worst.upper), floor_text(inputs, wanted.subject), figure(inputs.headroom))};
}

std::vector<std::string> dimensions_of(const gpu::MeasurementTable& table) {
  std::set<std::string> keys;
  for (const gpu::SequenceInfo& info : table.infos)
    for (const auto& [key, value] : info.slices) keys.insert(key);
  std::vector<std::string> dimensions(keys.begin(), keys.end());
  dimensions.resize(std::min(dimensions.size(), kMostDimensions));
  return dimensions;
}

void write_lines(std::string& text, std::string_view family, const std::vector<Line>& lines) {
  if (lines.empty()) return;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "\n{}:\n", family);
  for (const Line& line : lines) fmt::format_to(out, "  # {}\n  - {}\n", line.comment, line.clause);
}

/// A YAML double-quoted scalar: names come from files.
std::string yaml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

std::string head(const SuggestInputs& inputs, const schema::Slices& slices) {
  const gpu::MeasurementTable& table = *inputs.table;
  const auto kernel = [](const std::string& name, const char* otherwise) {
    return yaml_text(name.empty() ? otherwise : name);
  };
  std::string text = fmt::format(
      "# Suggested from {}: {} rows, {} sequences.\n"
      "# Each limit is {} times the upper limit of what was measured, with {} confidence. It says what\n"
      "# this pair does, not what your users can bear: review each line, then run `driftgate contract lint`\n"
      "# and `driftgate contract test` on it.\n"
      "apiVersion: driftgate/v1\nkind: KernelContract\n"
      "metadata: {{name: {}, description: \"Suggested from measurements\"}}\n\n"
      "kernels:\n  train: {{ref: {}}}\n  inf: {{ref: {}}}\n",
      one_line(inputs.sources), count_text(table.rows), count_text(table.sequences.size()),
      figure(inputs.headroom), percent(1 - inputs.alpha), yaml_text(inputs.name),
      kernel(table.train.kernel, "train-kernel"), kernel(table.inf.kernel, "inf-kernel"));
  if (slices.dimensions.empty()) return text;
  std::vector<std::string> names;
  for (const std::string& name : slices.dimensions) names.push_back(yaml_text(name));
  return text + fmt::format("\nslices:\n  dimensions: [{}]\n  min_sequences: {}\n", fmt::join(names, ", "),
                            slices.min_sequences);
}

}  // namespace

schema::Result<std::string> suggest_contract(const SuggestInputs& inputs) {
  if (!(inputs.headroom > 1) || !std::isfinite(inputs.headroom)) {
    return schema::fail(schema::ErrorCode::invalid_argument,
                        fmt::format("headroom is {} and must be over 1: a limit at the measured figure fails "
                                    "every other time",
                                    inputs.headroom));
  }
  const gpu::MeasurementTable& table = *inputs.table;
  if (table.nonfinite_rows > 0) {
    return schema::fail(schema::ErrorCode::unsupported,
                        fmt::format("{} rows have logits that are NaN or infinite: repair the kernel first, "
                                    "no limit can be made from it",
                                    table.nonfinite_rows));
  }
  schema::Slices slices;
  slices.dimensions = dimensions_of(table);
  slices.min_sequences = 10;
  const std::vector<schema::SliceWhere> monitored = monitored_slices(slices, table.infos);
  std::vector<Line> numerical{{"{id: finite, metric: nonfinite, aggregate: sum, max: 0}", "none was found"}};
  std::vector<Line> statistical;
  for (Wanted wanted : kNumerical) {
    if (schema::quantile_of(*wanted.subject.aggregate)) {
      wanted.subject.aggregate = provable_quantile(table, inputs.alpha);
    }
    if (auto line = clause_line(inputs, wanted, {}, false)) numerical.push_back(std::move(*line));
  }
  for (const Wanted& wanted : kStatistical)
    if (auto line = clause_line(inputs, wanted, monitored, true)) statistical.push_back(std::move(*line));
  std::string text = head(inputs, slices);
  write_lines(text, "numerical", numerical);
  write_lines(text, "statistical", statistical);
  text +=
      "\nruntime:\n"
      "  # not measured by captures: judgement\n"
      "  - {id: errors, metric: error_rate, max_ratio: 1.5, max: 0.02}\n"
      "  - {id: ttft, metric: ttft_ms, aggregate: p95, max_ratio: 1.25, severity: soft}\n"
      "\nobservability:\n"
      "  - {id: fresh, signal: telemetry, max_staleness: 30s}\n"
      "\nstages:\n"
      "  shadow-runtime: {mirror_share: 0.2, min_duration: 2m, max_duration: 1h}\n"
      "  canary:\n"
      "    steps: [{share: 0.01}, {share: 0.05}, {share: 0.25, approval: true}, {share: 1.0}]\n"
      "    soak: 1m\n    bake: 5m\n    min_keys: 300\n"
      "\nconfidence: {means: approximate}\n"
      "\nescalation:\n  defaults: {hard: rollback, soft: freeze}\n";
  return text;
}

}  // namespace driftgate::stages
