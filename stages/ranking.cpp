#include "stages/ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "schema/json.hpp"
#include "schema/verdict_rule.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::kRatioToRest;
using schema::Verdict;

/// What the estimate is held against: the threshold, or the tolerated share of rows beyond it.
double limit_of(const ClauseVerdict& verdict) {
  const auto fraction = verdict.details.find("tolerated_fraction");
  return fraction == verdict.details.end() ? verdict.threshold.value_or(0) : fraction->second;
}

/// How far a figure is beyond its limit, as a multiple of the limit's size; negative inside.
std::optional<double> excess(const ClauseVerdict& verdict) {
  // Against the rest of the corpus there is no limit to be beyond.
  if (!verdict.estimate || !verdict.threshold || verdict.limit_kind == kRatioToRest) return std::nullopt;
  const double limit = limit_of(verdict);
  const bool paired = verdict.limit_kind == "non_inferiority_margin";
  const bool difference = verdict.limit_kind == "max_delta";
  const bool at_most = verdict.limit_kind == "max" || verdict.details.contains("tolerated_fraction");
  const double scale = limit == 0 ? 1 : std::abs(limit);
  if (paired) return (-limit - *verdict.estimate) / scale;
  if (difference) return (std::abs(*verdict.estimate) - limit) / scale;
  return (at_most ? *verdict.estimate - limit : limit - *verdict.estimate) / scale;
}

}  // namespace

void rank_slices(const std::vector<ClauseVerdict>& corpus, StageReport& report) {
  for (ClauseVerdict& verdict : report.clauses) {
    if (verdict.where.empty()) continue;
    const auto all = std::ranges::find(corpus, verdict.clause, &ClauseVerdict::clause);
    const auto beyond = excess(verdict);
    if (!beyond || all == corpus.end()) continue;
    const auto whole = excess(*all);
    const bool hidden = *beyond > 0 && whole && *whole <= 0;
    report.ranking.push_back({verdict.clause, verdict.where, verdict.role, *verdict.estimate,
                              limit_of(verdict), verdict.lower, verdict.upper, verdict.verdict, *beyond,
                              hidden, all->estimate});
    if (all->estimate) verdict.details["corpus_estimate"] = *all->estimate;
    if (hidden && verdict.verdict != Verdict::pass) {
      verdict.message +=
          fmt::format(" Over the whole corpus it is {}, within the limit: the average hides {}.",
                      figure(*all->estimate), schema::slice_text(verdict.where));
    }
  }
  std::ranges::stable_sort(report.ranking, std::greater{}, &SliceRank::excess);
}

std::string ranking_json(const std::vector<SliceRank>& ranking) {
  nlohmann::json list = nlohmann::json::array();
  for (const SliceRank& rank : ranking) {
    nlohmann::json place{{"clause", rank.clause},
                         {"where", rank.where},
                         {"role", schema::to_string(rank.role)},
                         {"verdict", schema::to_string(rank.verdict)},
                         {"estimate", rank.estimate},
                         {"limit", rank.limit},
                         {"excess", rank.excess},
                         {"hidden_by_mean", rank.hidden_by_mean}};
    if (rank.lower) place["lower"] = *rank.lower;
    if (rank.upper) place["upper"] = *rank.upper;
    if (rank.corpus_estimate) place["corpus_estimate"] = *rank.corpus_estimate;
    list.push_back(std::move(place));
  }
  return schema::canonical_json(list);
}

}  // namespace driftgate::stages
