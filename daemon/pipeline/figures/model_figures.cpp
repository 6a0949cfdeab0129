#include "daemon/pipeline/figures/model_figures.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

namespace driftgate::pipeline {
namespace {

using schema::ClauseVerdict;

/// Lower comes first where not all are kept.
int rank(const ClauseVerdict& verdict) {
  if (verdict.verdict == schema::Verdict::violated) return 0;
  const bool soft = verdict.severity == schema::Severity::soft;
  const bool named = verdict.role == schema::SliceRole::corpus || verdict.role == schema::SliceRole::critical;
  return (soft ? 3 : 1) + (named ? 0 : 1);
}

ClauseFigure figure_of(const ClauseVerdict& verdict) {
  ClauseFigure figure{.clause = verdict.clause,
                      .slice = schema::slice_text(verdict.where),
                      .kind = verdict.limit_kind,
                      .verdict = verdict.verdict,
                      .n = verdict.n,
                      .value = verdict.estimate,
                      .limit = verdict.threshold,
                      .e_value = verdict.e_value};
  const auto needed = verdict.details.find("e_harm_needed");
  if (needed != verdict.details.end()) figure.e_needed = needed->second;
  return figure;
}

}  // namespace

std::shared_ptr<const DecisionFigures> figures_of(std::string_view stage,
                                                  const std::vector<ClauseVerdict>& verdicts,
                                                  std::int64_t now_us) {
  std::vector<std::size_t> places(verdicts.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t i) { return rank(verdicts[i]); });
  auto figures = std::make_shared<DecisionFigures>();
  figures->stage = stage;
  figures->time_us = now_us;
  std::set<std::tuple<std::string, std::string, std::string>> known;
  for (const auto i : places) {
    auto figure = figure_of(verdicts[i]);
    if (!known.emplace(figure.clause, figure.slice, figure.kind).second) continue;
    if (figures->clauses.size() < kMaxFigureClauses)
      figures->clauses.push_back(std::move(figure));
    else
      figures->left_out += 1;
  }
  return figures;
}

void LatencyFigures::add(double ms) {
  if (!std::isfinite(ms) || ms < 0) return;
  const double seconds = ms / 1'000;
  const auto* const bound = std::ranges::lower_bound(kLatencyBounds, seconds);
  buckets.at(static_cast<std::size_t>(bound - kLatencyBounds.begin())) += 1;
  sum_s += seconds;
}

}  // namespace driftgate::pipeline
