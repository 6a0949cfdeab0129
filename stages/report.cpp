#include "stages/report.hpp"

#include <algorithm>

#include "stages/report_begin.hpp"
#include "stages/statistics/multiple.hpp"

namespace driftgate::stages {

StageReport begin_report(schema::Stage stage, const schema::Contract& contract, const StageInputs& inputs) {
  StageReport report;
  report.stage = stage;
  report.alpha = inputs.alpha.value_or(fixed_data_alpha(contract.confidence.alpha, inputs.attempt));
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
  report.verdict = schema::combine(report.clauses);
  if (!demanded) {
    report.verdict = schema::Verdict::pass;
    report.notes.emplace_back("Nothing demanded: this contract has no clause for the stage " +
                              std::string(schema::to_string(report.stage)) +
                              "; what was measured is recorded.");
  }
}

bool holm_downgrades(std::vector<schema::ClauseVerdict*>& family, double alpha) {
  std::vector<double> p_values;
  for (const auto* verdict : family) p_values.push_back(verdict->p_value.value_or(1));
  const std::vector<bool> rejected = holm(p_values, alpha);
  bool any = false;
  for (std::size_t i = 0; i < family.size(); ++i) {
    if (family[i]->verdict != schema::Verdict::violated || rejected[i]) continue;
    family[i]->verdict = schema::Verdict::inconclusive;
    family[i]->details["holm_tests"] = static_cast<double>(family.size());
    family[i]->message += " Among " + std::to_string(family.size()) +
                          " tests looked at together that is not proof (Holm), so it is inconclusive.";
    any = true;
  }
  return any;
}

}  // namespace driftgate::stages
