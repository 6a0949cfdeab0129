#include "stages/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schema/contract/least_n.hpp"
#include "schema/contract/spending.hpp"
#include "schema/verdict_rule.hpp"
#include "stages/report/report_begin.hpp"
#include "stages/statistics/multiple.hpp"

namespace driftgate::stages {

StageReport begin_report(schema::Stage stage, const schema::Contract& contract, const StageInputs& inputs) {
  StageReport report;
  report.stage = stage;
  report.alpha = inputs.alpha.value_or(schema::spent_alpha(stage, contract.confidence.alpha, inputs.attempt));
  report.seed = inputs.seed;
  report.code_version = inputs.code_version;
  return report;
}

std::vector<const schema::Clause*> clauses_of(const schema::Contract& contract, schema::Stage stage) {
  std::vector<const schema::Clause*> clauses;
  for (const schema::Clause& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(stage)) != 0) clauses.push_back(&clause);
  }
  return clauses;
}

void finish_report(StageReport& report, bool demanded) {
  report.nothing_demanded = !demanded;
  schema::enforce_rules(report.clauses);
  report.verdict = schema::combine(report.clauses);
  if (!demanded) {
    report.verdict = schema::Verdict::pass;
    report.notes.emplace_back("Nothing demanded: this contract has no clause for the stage " +
                              std::string(schema::to_string(report.stage)) +
                              "; what was measured is recorded.");
  }
}

namespace {

/// Of a resampled verdict whose every replicate shows harm: the replicates that Holm's first step would ask
/// for in a family of this size, when there are fewer. A finer p-value was out of reach then.
std::optional<double> replicates_wanted(const schema::ClauseVerdict& verdict, std::size_t family,
                                        double alpha) {
  const auto replicates = verdict.details.find("replicates");
  if (replicates == verdict.details.end()) return std::nullopt;
  const double least = 1 / (replicates->second + 1);
  const double level = alpha / static_cast<double>(family);
  constexpr double kRounding = 1 + 1e-9;
  if (least <= level || verdict.p_value.value_or(1) > least * kRounding) return std::nullopt;
  return std::ceil(1 / level) - 1;
}

bool asks_no_harm(const schema::Contract& contract, const schema::ClauseVerdict& verdict) {
  const auto clause = std::ranges::find(contract.clauses, verdict.clause, &schema::Clause::address);
  return clause != contract.clauses.end() && schema::requirement_of(*clause) == schema::Requirement::no_harm;
}

}  // namespace

bool downgrade_by_holm(std::vector<schema::ClauseVerdict*>& family, double alpha,
                       const schema::Contract& contract) {
  std::vector<double> p_values;
  for (const auto* verdict : family) p_values.push_back(verdict->p_value.value_or(1));
  const std::vector<bool> rejected = holm(p_values, alpha);
  bool any = false;
  for (std::size_t i = 0; i < family.size(); ++i) {
    if (family[i]->verdict != schema::Verdict::violated || rejected[i]) continue;
    any = true;
    family[i]->details["holm_tests"] = static_cast<double>(family.size());
    family[i]->details["holm_rejected"] = 0;
    if (const auto wanted = replicates_wanted(*family[i], family.size(), alpha)) {
      family[i]->verdict = schema::Verdict::error;
      family[i]->details["replicates_wanted"] = *wanted;
      family[i]->message += fmt::format(
          " Every one of {:.0f} resamples shows it, and resampling cannot resolve it further in a family of "
          "{} "
          "tests (that takes {:.0f}), so it is an error: watch fewer slices or limit a quantile of it.",
          family[i]->details.at("replicates"), family.size(), *wanted);
      continue;
    }
    family[i]->message += fmt::format(
        " Among {} tests looked at together that is not proof (Holm), so it is no violation.", family.size());
    family[i]->no_harm_only = asks_no_harm(contract, *family[i]);
    family[i]->verdict = family[i]->no_harm_only ? schema::Verdict::pass : schema::Verdict::inconclusive;
  }
  return any;
}

}  // namespace driftgate::stages
