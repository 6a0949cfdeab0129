#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "gpu/support/bets_kernel.hpp"
#include "stages/bounds/bound_builder.hpp"
#include "stages/clauses/metric_test.hpp"
#include "stages/report/wording.hpp"

// docs/design/measurement.md, "Link 5: policy gradients".

namespace driftgate::stages {
namespace {

using schema::Horizon;
using schema::Metric;

/// Mass of p where q underflows that says nothing against the support assumption.
constexpr double kNoMass = 1e-6;
/// Mean mass of p where q underflows that contradicts it.
constexpr double kLostMass = 1e-3;
/// What an e-value is shown as where a double cannot hold it.
constexpr double kLargestEValue = 1e300;

/// No row has more of p's mass on tokens with q < u: there p < u·e^s, for at most V tokens; and p ≤ q +
/// (p − q)⁺, whose sum is tv.
double underflow_mass(double vocabulary, double span_max, double tv_max) {
  const double few = vocabulary * gpu::kUnderflow;
  return std::min({1.0, few * std::exp(span_max), few + tv_max});
}

gpu::SupportSums total_support(const gpu::MeasurementTable& table, const Selection& selection) {
  gpu::SupportSums out;
  const auto add = [](auto& into, const auto& more) {
    std::ranges::transform(into, more, into.begin(), std::plus<>());
  };
  for (const std::size_t i : selection) {
    const auto& sums = table.sequences[i].support;
    if (!sums) continue;
    out.rows += sums->rows;
    out.p_lost += sums->p_lost;
    out.untaken += sums->untaken, out.untaken_p += sums->untaken_p;
    out.ranges += sums->ranges, out.ranges_p += sums->ranges_p;
    add(out.preference, sums->preference);
    add(out.filters, sums->filters);
    add(out.filters_p, sums->filters_p);
  }
  return out;
}

/// The logarithm of the mean of e^x.
double log_mean(std::span<const double> logs) {
  const double top = std::ranges::max(logs);
  if (!std::isfinite(top)) return top;
  double sum = 0;
  for (const double x : logs) sum += std::exp(x - top);
  return top + std::log(sum / static_cast<double>(logs.size()));
}

std::string filter_text(std::size_t filter) {
  if (filter < gpu::kFilterTopP.size()) return fmt::format("top_p = {}", gpu::kFilterTopP[filter]);
  filter -= gpu::kFilterTopP.size();
  if (filter < gpu::kFilterTopK.size()) return fmt::format("top_k = {}", gpu::kFilterTopK[filter]);
  return fmt::format("min_p = {}", gpu::kFilterMinP[filter - gpu::kFilterTopK.size()]);
}

/// The four kinds of bets, each with a quarter of the wealth.
struct SupportEvidence {
  double log_e = 0;
  std::string because;              ///< what the kind that won most says
  std::optional<double> p_missing;  ///< the mean mass of p that K_inf did not take, by that kind
};

SupportEvidence evidence_of(const gpu::SupportSums& sums) {
  const std::array kinds{log_mean(sums.preference), log_mean(sums.filters), sums.untaken, sums.ranges};
  const double rows = sums.rows;
  SupportEvidence out{log_mean(kinds), {}, {}};
  switch (std::ranges::max_element(kinds) - kinds.begin()) {
    case 0:
      out.because = "tokens that K_train prefers to K_inf were taken too rarely";
      break;
    case 1: {
      const auto filter =
          static_cast<std::size_t>(std::ranges::max_element(sums.filters) - sums.filters.begin()) %
          gpu::kFilters;
      out.because = "tokens were taken as by a sampler with " + filter_text(filter);
      out.p_missing = sums.filters_p[filter] / rows;
      break;
    }
    case 2:
      out.because = "tokens that should have been taken several times never were";
      out.p_missing = sums.untaken_p / rows;
      break;
    default:
      out.because = "of a range of token ids, as a shard of the vocabulary is, none was ever taken";
      out.p_missing = sums.ranges_p / rows;
  }
  return out;
}

}  // namespace

bool BoundBuilder::test_support(BoundLink& link) {
  const gpu::SupportSums sums = total_support(table, selection);
  if (sums.rows == 0) return false;
  const SupportEvidence evidence = evidence_of(sums);
  const double lost = sums.p_lost / sums.rows;
  link.inputs["rows_tested"] = sums.rows;
  link.inputs["p_mass_underflow"] = lost;
  link.inputs["e_value_not_sampled_from_q"] = std::min(std::exp(evidence.log_e), kLargestEValue);
  link.method +=
      fmt::format("; e-value, over {} rows, that the tokens were not sampled from q", count_text(sums.rows));
  if (evidence.log_e >= -std::log(alpha)) {
    lost_support = evidence.because;
    if (evidence.p_missing) link.inputs["p_mass_missing"] = *evidence.p_missing;
  } else if (lost > kLostMass) {
    lost_support = fmt::format("{} of the mass of p is where q underflows float32", percent(lost));
  }
  if (!lost_support.empty()) {
    link.status = AssumptionStatus::broken;
    link.assumption += ", but " + lost_support;
  } else if (*link.value <= kNoMass || (sums.rows == chain.rows && lost <= kNoMass)) {
    link.status = AssumptionStatus::checked;
  }
  return true;
}

AssumptionStatus BoundBuilder::add_support() {
  BoundLink& link = add(5, "support", std::nullopt, Horizon::token);
  const double span = largest(Metric::logit_span);
  link.value = underflow_mass(table.vocabulary, span, std::min(1.0, largest(Metric::tv)));
  link.inputs["p_mass_underflow_max"] = *link.value;
  link.inputs["q_underflow"] = gpu::kUnderflow;
  link.inputs["logit_span_max"] = span;
  link.method = "largest mass of p on tokens where q underflows float32, bounded by V*u*e^s and by tv";
  link.assumption = "every token that K_train can take K_inf can take (supp p inside supp q)";
  if (!table.has_tokens) return link.status;
  double least_log_q = 0;
  for (const std::size_t i : selection)
    least_log_q = std::min(least_log_q, table.sequences[i].target.min_log_q);
  link.inputs["least_log_q"] = least_log_q;
  link.inputs["smallest_q_a"] = std::exp(least_log_q);
  if (!table.sampled_by_inf() || values_only) return link.status;
  const MeanRules resampling{.means = schema::Means::approximate};
  const auto ratio =
      test_metric(table, selection, {Metric::ratio_mean, {}}, {1, true}, resampling, alpha, seed);
  const auto ess = test_metric(table, selection, {Metric::ess_fraction, {}}, {kLeastEssFraction, false},
                               resampling, alpha, seed);
  if (ratio) link.inputs["ratio_mean"] = ratio->estimate;
  if (ess) link.inputs["ess_fraction"] = ess->estimate;
  link.clusters = ratio ? ratio->clusters : 0;
  if (test_support(link) || !ratio || !ess) return link.status;
  if (ratio->lower) link.inputs["ratio_mean_lower"] = *ratio->lower;
  if (ratio->upper) link.inputs["ratio_mean_upper"] = *ratio->upper;
  link.method += "; ratio_mean by " + (ratio->undecidable.empty() ? ratio->method : ratio->undecidable);
  link.approximate = true;
  if (!(ess->estimate > kLeastEssFraction) || !ratio->upper) return link.status;
  // A mean ratio below 1 is mass of p where q has none. Resampling is too sure of a mean of ratios near 1 for
  // more than a suspicion.
  if (*ratio->upper < 1) return link.status = AssumptionStatus::suspicious;
  if (*link.value <= kNoMass) link.status = AssumptionStatus::checked;
  return link.status;
}

}  // namespace driftgate::stages
