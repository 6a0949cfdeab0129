#include "stages/offline_numeric.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stages/clauses/clause_rules.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/clip_report.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/report/report_begin.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

/// Slices with a bound chain of their own: the certificate of a corpus with many is cut, and says so.
constexpr std::size_t kMaxChains = 64;

void note_identity(const schema::Contract& contract, const gpu::MeasurementTable& table,
                   StageReport& report) {
  const auto differs = [&](const char* side, const std::string& wanted, const std::string& found) {
    if (wanted.empty() || found.empty() || wanted == found) return;
    report.notes.push_back(
        fmt::format("The contract names {} as the {} kernel and the capture says {}.", wanted, side, found));
  };
  differs("training", contract.train_kernel, table.train.kernel);
  differs("inference", contract.inf_kernel, table.inf.kernel);
  if (table.nonfinite_rows > 0) {
    report.notes.push_back(fmt::format("{} of {} rows are not finite.", count_text(table.nonfinite_rows),
                                       count_text(table.rows)));
  }
}

}  // namespace

std::vector<gpu::Threshold> required_thresholds(const schema::Contract& contract) {
  std::vector<gpu::Threshold> thresholds;
  const auto want = [&](const gpu::Threshold& wanted) {
    if (std::ranges::find(thresholds, wanted) == thresholds.end()) thresholds.push_back(wanted);
  };
  for (const schema::Clause& clause : contract.clauses) {
    const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
    if (subject == nullptr || !subject->aggregate || !schema::quantile_of(*subject->aggregate)) continue;
    if (clause.over == schema::QuantileOver::sequences) continue;  // sequences are looked at themselves
    if (static_cast<std::size_t>(subject->metric) >= schema::kRowMetricCount) continue;
    if (const auto limit = metric_limit(clause)) want({subject->metric, limit->value, limit->is_max});
    if (!clause.limits.floor_multiple || !clause.limits.max) continue;
    want({subject->metric, *clause.limits.max, true});
    for (const double raised : floor_limit_grid(clause.limits)) want({subject->metric, raised, true});
  }
  return thresholds;
}

std::vector<schema::SliceWhere> wanted_slices(const schema::Contract& contract,
                                              const std::vector<gpu::SequenceInfo>& infos) {
  std::vector<schema::SliceWhere> wanted = contract.slices.critical;
  for (schema::SliceWhere& where : monitored_slices(contract.slices, infos))
    wanted.push_back(std::move(where));
  if (wanted.size() > kMaxSlices) wanted.resize(kMaxSlices);
  return wanted;
}

StageReport evaluate_offline_numeric(const schema::Contract& contract, const gpu::MeasurementTable& table,
                                     const StageInputs& inputs) {
  StageReport report = begin_report(schema::Stage::offline_numeric, contract, inputs);
  const ClauseData data{&contract, &table, report.alpha, report.seed, inputs.floors};
  const auto clauses = clauses_of(contract, schema::Stage::offline_numeric);
  for (const schema::Clause* clause : clauses) {
    report.clauses.push_back(decide_clause(data, *clause, {}, schema::SliceRole::corpus));
  }
  std::vector<schema::SliceWhere> slices = wanted_slices(contract, table.infos);
  if (slices.size() > kMaxChains) {
    report.notes.push_back(
        fmt::format("The certificate covers the first {} of {} slices.", kMaxChains, slices.size()));
    slices.resize(kMaxChains);
  }
  note_certified_means(contract, report.clauses);
  report.bounds = bound_chains(table, contract.assumptions, slices, report.alpha, report.seed,
                               reward_tolerance(contract));
  add_floor_values(report.bounds, inputs.floors, contract.assumptions);
  note_identity(contract, table, report);
  finish_report(report, !clauses.empty());
  return report;
}

}  // namespace driftgate::stages
