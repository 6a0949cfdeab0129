#include "stages/suggest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "gpu/table/summary.hpp"
#include "schema/contract/contract.hpp"
#include "schema/contract/least_n.hpp"
#include "schema/number_text.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Aggregate;
using schema::Metric;

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kMostDimensions = 16;

/// A clip leaves this much room over the largest mean of a sequence that was seen, and over the mean of all.
constexpr double kClipOverMean = 12.5;
constexpr double kLeastClip = 1e-4;  ///< under it drift is rounding

/// A mean over sequences that is usually limited, and whether it is clipped with a quantile clause beside it.
struct Wanted {
  const char* id;
  const char* tail;  ///< id of the quantile clause; null: no clip
  Metric metric;
};
constexpr std::array kNumerical{
    Wanted{"kl", "kl-tail", Metric::kl_inf_train},
    Wanted{"tv", "tv-tail", Metric::tv},
    Wanted{"greedy", nullptr, Metric::top1_flip},
};
constexpr std::array kStatistical{
    Wanted{"slice-tv", "slice-tail", Metric::tv},
    Wanted{"slice-top1", nullptr, Metric::top1_flip},
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

/// The outermost of some quantiles whose clause `sequences` can prove when nothing lies beyond its limit.
Aggregate provable_quantile(std::span<const Aggregate> quantiles, std::size_t sequences, double alpha) {
  for (const Aggregate quantile : quantiles) {
    const auto least = schema::least_n_betting(tolerated_fraction(quantile, true), alpha);
    if (least && *least <= sequences) return quantile;
  }
  return quantiles.back();
}

Figure mean_figure(const gpu::MeasurementTable& table, const Selection& selection, Metric metric,
                   std::optional<double> clip, double alpha) {
  MeanRules rules;
  rules.clip = clip;
  // The limit plays no part in the interval; it stands where nothing can lie above it.
  const double end = clip.value_or(schema::info(metric).high);
  const auto test =
      test_metric(table, selection, {metric, Aggregate::sequence_mean}, {end, true}, rules, alpha, kSeed);
  if (!test || test->n == 0 || !test->upper) return {};
  return {test->estimate, *test->upper, true};
}

/// Mean and largest of the sequences' means.
struct Spread {
  double mean = 0, largest = 0;
  std::size_t sequences = 0;
};

Spread spread_of(const gpu::MeasurementTable& table, Metric metric) {
  Spread spread;
  if (table.bounded(metric)) return spread;
  for (const gpu::SequenceRow& row : table.sequences) {
    const auto value = sequence_value(metric, row);
    if (!value) continue;
    ++spread.sequences;
    spread.mean += *value;
    spread.largest = std::max(spread.largest, *value);
  }
  if (spread.sequences > 0) spread.mean /= static_cast<double>(spread.sequences);
  return spread;
}

/// One clause of the suggestion with its comment.
struct Line {
  std::string clause, comment;
};

/// The stage that a clause is for: its slices, where it has some.
struct Scope {
  std::vector<schema::SliceWhere> slices;  ///< large enough to be decided
  Aggregate tail = Aggregate::p97;         ///< the quantile over sequences that the least of them can prove

  [[nodiscard]] std::string words() const { return slices.empty() ? "" : ", slices: [monitored]"; }
};

std::string floor_text(const SuggestInputs& inputs, Metric metric, std::optional<double> clip) {
  std::string text;
  const auto add = [&](const gpu::MeasurementTable* floor, const char* what) {
    if (floor == nullptr) return;
    const Figure noise = mean_figure(*floor, select_sequences(*floor, {}), metric, clip, inputs.alpha);
    if (noise.known) text += fmt::format(", {} {}", what, figure(noise.estimate));
  };
  add(inputs.floor_train, "floor of K_train");
  add(inputs.floor_inf, "floor of K_inf");
  return text;
}

/// The worst of the slices, or the corpus.
struct Place {
  Figure worst;
  schema::SliceWhere where;
};

Place worst_place(const SuggestInputs& inputs, Metric metric, std::optional<double> clip,
                  const Scope& scope) {
  const gpu::MeasurementTable& table = *inputs.table;
  Place place{mean_figure(table, select_sequences(table, {}), metric, clip, inputs.alpha), {}};
  for (const schema::SliceWhere& where : scope.slices) {
    const Figure here = mean_figure(table, select_sequences(table, where), metric, clip, inputs.alpha);
    if (here.known && here.upper > place.worst.upper) place = {here, where};
  }
  return place;
}

/// The mean of each sequence counts as at most this; nothing where the metric ends there anyway.
std::optional<double> clip_for(const Spread& spread, Metric metric, double headroom) {
  const double clip =
      rounded_up(std::max({headroom * spread.largest, kClipOverMean * spread.mean, kLeastClip}));
  if (clip >= schema::info(metric).high) return std::nullopt;
  return clip;
}

std::vector<Line> mean_lines(const SuggestInputs& inputs, const Wanted& wanted, const Scope& scope) {
  const Spread spread = spread_of(*inputs.table, wanted.metric);
  if (spread.sequences == 0) return {};
  const schema::MetricInfo& entry = schema::info(wanted.metric);
  auto clip = wanted.tail == nullptr ? std::nullopt : clip_for(spread, wanted.metric, inputs.headroom);
  const Place place = worst_place(inputs, wanted.metric, clip, scope);
  if (!place.worst.known) return {};
  const double limit = std::min(rounded_up(place.worst.upper * inputs.headroom), entry.high);
  if (clip && limit >= *clip)
    clip = rounded_up(2 * limit);  // so few sequences that they prove next to nothing
  if (clip && *clip >= entry.high) clip.reset();
  if (!clip && !entry.bounded) return {};
  const std::string where = place.where.empty() ? "" : " on " + schema::slice_text(place.where);
  std::vector<Line> lines{
      {fmt::format("{{id: {}, metric: {}, aggregate: sequence_mean, {}max: {}{}}}", wanted.id, entry.name,
                   clip ? fmt::format("clip: {}, ", schema::number_text(*clip)) : "",
                   schema::number_text(limit), scope.words()),
       fmt::format("measured {}{}, at most {}{}; headroom {}×", figure(place.worst.estimate), where,
                   figure(place.worst.upper), floor_text(inputs, wanted.metric, clip),
                   figure(inputs.headroom))}};
  if (!clip) return lines;
  lines.push_back(
      {fmt::format("{{id: {}, metric: {}, aggregate: {}, over: sequences, max: {}{}}}", wanted.tail,
                   entry.name, schema::to_string(scope.tail), schema::number_text(*clip), scope.words()),
       fmt::format("the largest mean of a sequence was {}; at most {} of the sequences may lie above "
                   "the clip",
                   figure(spread.largest), percent(tolerated_fraction(scope.tail, true)))});
  return lines;
}

/// The largest drift of rows that the corpus can prove a limit of.
std::optional<Line> span_line(const SuggestInputs& inputs) {
  const gpu::MeasurementTable& table = *inputs.table;
  constexpr std::array kQuantiles{Aggregate::p99, Aggregate::p95, Aggregate::p90, Aggregate::p50};
  const Aggregate quantile = provable_quantile(kQuantiles, table.sequences.size() / 2, inputs.alpha);
  if (table.bounded(Metric::logit_span)) return std::nullopt;
  const gpu::MetricSummary summary = gpu::summarise(table).metrics[index_of(Metric::logit_span)];
  const double value = quantile == Aggregate::p99   ? summary.p99
                       : quantile == Aggregate::p95 ? summary.p95
                       : quantile == Aggregate::p90 ? summary.p90
                                                    : summary.p50;
  if (!std::isfinite(value)) return std::nullopt;
  return Line{
      fmt::format("{{id: span-tail, metric: logit_span, aggregate: {}, max: {}}}",
                  schema::to_string(quantile), schema::number_text(rounded_up(value * inputs.headroom))),
      fmt::format("measured {}; headroom {}×", figure(value), figure(inputs.headroom))};
}

std::vector<std::string> dimensions_of(const gpu::MeasurementTable& table) {
  std::set<std::string> keys;
  for (const gpu::SequenceInfo& info : table.infos)
    for (const auto& [key, value] : info.slices) keys.insert(key);
  std::vector<std::string> dimensions(keys.begin(), keys.end());
  dimensions.resize(std::min(dimensions.size(), kMostDimensions));
  return dimensions;
}

/// Which slices the suggestion speaks of.
struct Plan {
  schema::Slices slices;
  Scope corpus, monitored;
};

/// Slices are decided from as many sequences on as the quantile beside the clip takes: the outermost that
/// some slice, or else the corpus, can prove.
Plan plan_for(const SuggestInputs& inputs) {
  constexpr std::array kTails{Aggregate::p97, Aggregate::p95, Aggregate::p90};
  const gpu::MeasurementTable& table = *inputs.table;
  const double alpha = schema::spent_alpha(schema::Stage::statistical_slice, inputs.alpha, 1);
  Plan plan;
  plan.slices.dimensions = dimensions_of(table);
  plan.corpus.tail = provable_quantile(kTails, table.sequences.size(), alpha);
  std::size_t largest = 0;
  std::map<schema::SliceWhere, std::size_t> sizes;
  for (const schema::SliceWhere& where : monitored_slices(plan.slices, table.infos)) {
    sizes[where] = select_sequences(table, where).size();
    largest = std::max(largest, sizes[where]);
  }
  plan.monitored.tail = provable_quantile(kTails, largest > 0 ? largest : table.sequences.size(), alpha);
  const auto least = schema::least_n_betting(tolerated_fraction(plan.monitored.tail, true), alpha);
  plan.slices.min_sequences = static_cast<std::uint32_t>(least.value_or(1));
  for (const auto& [where, size] : sizes)
    if (size >= plan.slices.min_sequences) plan.monitored.slices.push_back(where);
  return plan;
}

void write_lines(std::string& text, std::string_view family, const std::vector<Line>& lines) {
  if (lines.empty()) return;
  text += fmt::format("\n{}:\n", family);
  for (const Line& line : lines) text += fmt::format("  # {}\n  - {}\n", line.comment, line.clause);
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
      "# and `driftgate contract test` on it. Means are decided exactly, each sequence counting once and as "
      "at\n"
      "# most `clip`; the quantile clause beside it limits how many sequences may lie above the clip.\n"
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
  const Plan plan = plan_for(inputs);
  std::vector<Line> numerical{{"{id: finite, metric: nonfinite, aggregate: sum, max: 0}", "none was found"}};
  std::vector<Line> statistical;
  for (const Wanted& wanted : kNumerical)
    std::ranges::move(mean_lines(inputs, wanted, plan.corpus), std::back_inserter(numerical));
  if (auto line = span_line(inputs)) numerical.push_back(std::move(*line));
  for (const Wanted& wanted : kStatistical)
    std::ranges::move(mean_lines(inputs, wanted, plan.monitored), std::back_inserter(statistical));
  std::string text = head(inputs, plan.slices);
  write_lines(text, "numerical", numerical);
  write_lines(text, "statistical", statistical);
  text +=
      "\nruntime:\n"
      "  # captures do not measure these: limits chosen by judgement\n"
      "  - {id: errors, metric: error_rate, max_ratio: 1.5, max: 0.02}\n"
      "  - {id: ttft, metric: ttft_ms, aggregate: p95, max_ratio: 1.25, severity: soft}\n"
      "\nobservability:\n"
      "  - {id: fresh, signal: telemetry, max_staleness: 30s}\n"
      "\nstages:\n"
      "  shadow-runtime: {mirror_share: 0.2, min_duration: 2m, max_duration: 1h}\n"
      "  canary:\n"
      "    steps: [{share: 0.01}, {share: 0.05}, {share: 0.25, approval: true}, {share: 1.0}]\n"
      "    soak: 6m\n    bake: 5m\n    min_keys: 300\n    max_duration: 24h\n"
      "\nguard: {mean_time_between_false_alarms: 365d}\n"
      "\nescalation:\n  defaults: {hard: rollback, soft: freeze}\n";
  return text;
}

}  // namespace driftgate::stages
