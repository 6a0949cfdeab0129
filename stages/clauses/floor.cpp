#include "stages/clauses/floor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stages/clauses/metric_test.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Aggregate;
using schema::ErrorCode;
using schema::Metric;

constexpr std::size_t kGridSteps = 8;

/// What every figure of a floor is taken from.
struct Look {
  const gpu::MeasurementTable& table;
  const Selection selection;
  const schema::Clause& clause;
  const schema::MetricSubject& subject;
  const MeanRules& rules;
  double alpha;
  std::uint64_t seed;
};

bool is_quantile(const schema::MetricSubject& subject) {
  return subject.aggregate && schema::quantile_of(*subject.aggregate);
}

double grid_step(const schema::Limits& limits, std::size_t step) {
  const double max = limits.max.value_or(0);
  const double cap = limits.floor_cap.value_or(max);
  if (step == kGridSteps) return cap;
  const double share = static_cast<double>(step) / kGridSteps;
  return max > 0 ? max * std::pow(cap / max, share) : cap * share;
}

std::optional<double> histogram_quantile(const Look& look, const schema::SliceWhere& where) {
  const auto found = std::ranges::find(look.table.slices, where, &gpu::SliceHistograms::where);
  if (found == look.table.slices.end()) return std::nullopt;
  const gpu::Histogram& histogram = found->histograms[static_cast<std::size_t>(look.subject.metric)];
  if (histogram.count() == 0) return std::nullopt;
  return histogram.quantile(*schema::quantile_of(*look.subject.aggregate));
}

/// The smallest mean of a sequence that is of rank ⌈Qn⌉ or over.
std::optional<double> sequence_quantile(const Look& look) {
  std::vector<double> values;
  for (const std::size_t i : look.selection) {
    if (const auto value = sequence_value(look.subject.metric, look.table.sequences[i]))
      values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const double rank =
      std::ceil(*schema::quantile_of(*look.subject.aggregate) * static_cast<double>(values.size()));
  return values[std::clamp<std::size_t>(static_cast<std::size_t>(rank), 1, values.size()) - 1];
}

schema::Result<void> quantile_floor(const Look& look, const schema::SliceWhere& where, FloorFigure& figure) {
  figure.estimate = look.rules.over == schema::QuantileOver::sequences ? sequence_quantile(look)
                                                                       : histogram_quantile(look, where);
  figure.method = fmt::format("share of {} beyond each step of a grid",
                              look.rules.over == schema::QuantileOver::sequences ? "sequences" : "rows");
  for (const double limit : floor_limit_grid(look.clause.limits)) {
    const double level = limit / *look.clause.limits.floor_multiple;
    auto test = TRY(test_metric(look.table, look.selection, look.subject, {level, true}, look.rules,
                                look.alpha, look.seed));
    if (!test.undecidable.empty() || test.p_high > look.alpha) break;
    figure.lower = level;
  }
  return {};
}

/// The largest value is at least the largest that was seen: no confidence is involved.
void largest_floor(const Look& look, FloorFigure& figure) {
  gpu::Moments all;
  for (const std::size_t i : look.selection) {
    const auto& part = look.table.sequences[i].metrics[static_cast<std::size_t>(look.subject.metric)];
    if (part.n > 0) all.merge(part);
  }
  figure.method = "largest value seen";
  if (all.n == 0) return;
  figure.estimate = all.max;
  figure.lower = all.max;
}

schema::Result<void> mean_floor(const Look& look, FloorFigure& figure) {
  const double tau = *look.clause.limits.max / *look.clause.limits.floor_multiple;
  auto test = TRY(
      test_metric(look.table, look.selection, look.subject, {tau, true}, look.rules, look.alpha, look.seed));
  figure.method = test.method;
  figure.undecidable = test.undecidable;
  if (test.n > 0) figure.estimate = test.estimate;
  if (test.undecidable.empty()) figure.lower = std::max(0.0, test.lower.value_or(0));
  return {};
}

schema::Result<FloorFigure> figure_of(const Floor& floor, FloorSide side, const schema::Clause& clause,
                                      const schema::MetricSubject& subject, const schema::SliceWhere& where,
                                      const MeanRules& rules, double alpha, std::uint64_t seed) {
  const Look look{*floor.table, select_sequences(*floor.table, where), clause, subject, rules, alpha, seed};
  if (look.selection.empty()) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("the {} floor holds no sequence{}: take its captures on a corpus with "
                                    "such sequences",
                                    to_string(side), on_slice(where)));
  }
  const bool broken = std::ranges::any_of(look.selection, [&](std::size_t i) {
    return look.table.sequences[i].metrics[static_cast<std::size_t>(Metric::nonfinite)].sum > 0;
  });
  if (broken) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("the {} floor has NaN or infinite logits{}, and what is not finite is "
                                    "no noise: repair the kernel and take its captures again",
                                    to_string(side), on_slice(where)));
  }
  FloorFigure figure;
  figure.side = side;
  figure.digest = floor.digest;
  schema::Result<void> done;
  if (is_quantile(subject)) {
    done = quantile_floor(look, where, figure);
  } else if (subject.aggregate == Aggregate::max) {
    largest_floor(look, figure);
  } else {
    done = mean_floor(look, figure);
  }
  if (!done) return schema::wrap(done.error(), fmt::format("the {} floor", to_string(side)));
  return figure;
}

const FloorFigure& largest(const FloorLimit& limit) {
  return *std::ranges::max_element(limit.floors, {}, &FloorFigure::lower);
}

}  // namespace

std::string_view to_string(FloorSide side) {
  return side == FloorSide::train ? "train" : "inf";
}

std::vector<double> floor_limit_grid(const schema::Limits& limits) {
  std::vector<double> grid;
  for (std::size_t step = 1; step <= kGridSteps; ++step) {
    const double value = grid_step(limits, step);
    if (value > limits.max.value_or(0) && (grid.empty() || value > grid.back())) grid.push_back(value);
  }
  return grid;
}

std::vector<gpu::Threshold> floor_thresholds(const schema::Contract& contract) {
  std::vector<gpu::Threshold> thresholds;
  for (const schema::Clause& clause : contract.clauses) {
    const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
    if (subject == nullptr || !clause.limits.floor_multiple || !is_quantile(*subject)) continue;
    if (clause.over == schema::QuantileOver::sequences) continue;  // sequences are looked at themselves
    for (const double limit : floor_limit_grid(clause.limits)) {
      const gpu::Threshold wanted{subject->metric, limit / *clause.limits.floor_multiple, true};
      if (std::ranges::find(thresholds, wanted) == thresholds.end()) thresholds.push_back(wanted);
    }
  }
  return thresholds;
}

schema::Result<FloorLimit> floor_limit(const Floors& floors, const schema::Clause& clause,
                                       const schema::MetricSubject& subject, const schema::SliceWhere& where,
                                       const MeanRules& rules, double alpha, std::uint64_t seed) {
  if (!floors.any()) {
    return schema::fail(
        ErrorCode::not_found,
        fmt::format(
            "{} has a floor_multiple and no noise floor was measured. Capture the same rows a second time "
            "with another batch size, by the training kernel or by the inference kernel, and give that "
            "capture as `floor`: {{\"train\": …}} or {{\"inf\": …}} of the stage's captures (`driftgate "
            "drift`: "
            "--floor-train or --floor-inf)",
            clause.address()));
  }
  FloorLimit limit;
  limit.max = clause.limits.max.value_or(0);
  limit.multiple = clause.limits.floor_multiple.value_or(1);
  limit.cap = clause.limits.floor_cap.value_or(limit.max);
  limit.alpha = alpha / 2;
  const bool both = floors.train.table != nullptr && floors.inf.table != nullptr;
  limit.floor_alpha = both ? alpha / 4 : alpha / 2;
  for (const FloorSide side : kFloorSides) {
    if (floors.of(side).table == nullptr) continue;
    auto figure =
        TRY(figure_of(floors.of(side), side, clause, subject, where, rules, limit.floor_alpha, seed));
    limit.floors.push_back(std::move(figure));
  }
  // A quantile's steps are limits of the grid: rounding must not move a limit off its threshold.
  const double raised = limit.multiple * largest(limit).lower;
  limit.limit = std::clamp(raised, limit.max, limit.cap);
  if (is_quantile(subject)) {
    for (const double step : floor_limit_grid(clause.limits)) {
      if (step / limit.multiple == largest(limit).lower) limit.limit = step;
    }
  }
  return limit;
}

schema::Result<void> check_floor_identity(const gpu::CaptureIdentity& first,
                                          const gpu::CaptureIdentity& second, const gpu::CaptureIdentity& own,
                                          std::string_view name) {
  const auto refuse = [&](const char* what, const std::string& found, const std::string& wanted) {
    return schema::fail(ErrorCode::not_comparable,
                        fmt::format("{}: its {} is '{}' and that of the drift's capture is '{}'; a floor is "
                                    "the same kernel run twice on the same corpus",
                                    name, what, found, wanted));
  };
  for (const auto* capture : {&first, &second}) {
    if (capture->kernel != own.kernel) return refuse("kernel", capture->kernel, own.kernel);
    if (capture->checkpoint_digest != own.checkpoint_digest)
      return refuse("checkpoint", capture->checkpoint_digest, own.checkpoint_digest);
    if (capture->corpus_digest != own.corpus_digest)
      return refuse("corpus", capture->corpus_digest, own.corpus_digest);
  }
  return {};
}

void note_floor(const FloorLimit& limit, schema::ClauseVerdict& verdict) {
  verdict.details["stated_max"] = limit.max;
  verdict.details["floor_multiple"] = limit.multiple;
  verdict.details["floor_cap"] = limit.cap;
  verdict.details["floor_alpha"] = limit.floor_alpha;
  for (const FloorFigure& floor : limit.floors) {
    const std::string name = fmt::format("floor_{}", to_string(floor.side));
    if (floor.estimate) verdict.details[name] = *floor.estimate;
    verdict.details[name + "_lower"] = floor.lower;
    if (!floor.digest.empty()) verdict.tables[name] = floor.digest;
  }
  const FloorFigure& floor = largest(limit);
  std::string text =
      fmt::format(" The noise floor of K_{} is {}, with {} confidence at least {}", to_string(floor.side),
                  floor.estimate ? figure(*floor.estimate) : "not known", percent(1 - limit.floor_alpha),
                  figure(floor.lower));
  if (!floor.undecidable.empty()) text += fmt::format(" ({})", floor.undecidable);
  if (limit.limit > limit.max) {
    text += fmt::format("; {} times that raises the stated max of {} to {}{}.", figure(limit.multiple),
                        figure(limit.max), figure(limit.limit), limit.limit == limit.cap ? ", its cap" : "");
  } else {
    text += fmt::format("; {} times that is within the stated max, which stands.", figure(limit.multiple));
  }
  verdict.message += text;
}

}  // namespace driftgate::stages
