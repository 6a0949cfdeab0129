#include "stages/statistical_slice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stages/clauses/clause_rules.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/clip_report.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/ranking.hpp"
#include "stages/report/report_begin.hpp"
#include "stages/report/wording.hpp"
#include "stages/slices/against_rest.hpp"
#include "stages/slices/discovered.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::SliceRole;
using schema::Verdict;

bool asks_for(const schema::Clause& clause, SliceRole role) {
  return std::ranges::find(clause.slices, role) != clause.slices.end();
}

struct ClauseVerdicts {
  const schema::Clause* clause = nullptr;
  ClauseVerdict corpus;  ///< demanded only when the clause names no slices
  std::vector<ClauseVerdict> slices;
};

ClauseVerdicts decide_all(const ClauseData& data, const schema::Clause& clause,
                          const std::vector<schema::SliceWhere>& monitored) {
  ClauseVerdicts all{&clause, decide_clause(data, clause, {}, SliceRole::corpus), {}};
  if (asks_for(clause, SliceRole::critical)) {
    for (const auto& where : data.contract->slices.critical) {
      all.slices.push_back(decide_clause(data, clause, where, SliceRole::critical));
    }
  }
  if (asks_for(clause, SliceRole::monitored)) {
    for (const auto& where : monitored) {
      all.slices.push_back(decide_clause(data, clause, where, SliceRole::monitored));
    }
  }
  return all;
}

/// A clause on slices of which there is none was not looked at, and that is no pass.
ClauseVerdict no_slice(const ClauseData& data, const schema::Clause& clause) {
  return error_verdict(
      begin_verdict(clause, {}, SliceRole::corpus, data.alpha, data.seed),
      asks_for(clause, SliceRole::monitored)
          ? "No sequence has an attribute of slices.dimensions that is not a critical slice, so no "
            "slice could be decided: give the corpus slices or remove the clause."
          : "The contract names no critical slice, so no slice could be decided: name some in "
            "slices.critical or remove the clause.");
}

void note_listed(const StageReport& report, std::vector<std::string>& notes) {
  std::size_t open = 0;
  for (const ClauseVerdict& verdict : report.clauses) {
    open += static_cast<std::size_t>(verdict.role == SliceRole::monitored &&
                                     verdict.verdict == Verdict::inconclusive);
  }
  if (open > 0) {
    notes.push_back(fmt::format(
        "{} verdicts on monitored slices are inconclusive; they are listed and do not block.", open));
  }
  for (const SliceRank& place : report.ranking) {
    if (!place.hidden_by_mean) continue;
    notes.push_back(fmt::format("{}: the average hides {}, whose figure is {} against a limit of {}.",
                                place.clause, schema::slice_text(place.where), figure(place.estimate),
                                figure(place.limit)));
  }
}

}  // namespace

StageReport evaluate_statistical_slice(const schema::Contract& contract, const gpu::MeasurementTable& table,
                                       const StageInputs& inputs) {
  StageReport report = begin_report(schema::Stage::statistical_slice, contract, inputs);
  const ClauseData data{&contract, &table, report.alpha, report.seed, inputs.floors};
  const auto clauses = clauses_of(contract, schema::Stage::statistical_slice);
  const auto monitored = monitored_slices(contract.slices, table.infos);
  std::vector<ClauseVerdicts> decided;
  for (const schema::Clause* clause : clauses) decided.push_back(decide_all(data, *clause, monitored));
  for (ClauseVerdicts& all : decided) {
    if (all.clause->slices.empty()) {
      report.clauses.push_back(all.corpus);
    } else if (all.slices.empty()) {
      report.clauses.push_back(no_slice(data, *all.clause));
    }
    std::ranges::move(all.slices, std::back_inserter(report.clauses));
  }
  Discovery discovery = discover_slices(data, clauses, monitored);
  std::ranges::move(discovery.verdicts, std::back_inserter(report.clauses));
  std::vector<ClauseVerdict*> critical;
  std::vector<ClauseVerdict*> watched;
  for (ClauseVerdict& verdict : report.clauses) {
    if (verdict.role == SliceRole::critical) critical.push_back(&verdict);
    if (verdict.role == SliceRole::monitored) watched.push_back(&verdict);
  }
  downgrade_by_holm(critical, report.alpha, contract);
  downgrade_by_holm(watched, report.alpha, contract);
  note_certified_means(contract, report.clauses);
  RestComparison rest = compare_with_rest(data, clauses, report.clauses);
  std::ranges::move(rest.verdicts, std::back_inserter(report.clauses));
  std::vector<ClauseVerdict> whole;
  for (const ClauseVerdicts& all : decided) whole.push_back(all.corpus);
  rank_slices(whole, report);
  note_listed(report, report.notes);
  std::ranges::move(discovery.notes, std::back_inserter(report.notes));
  std::ranges::move(rest.notes, std::back_inserter(report.notes));
  finish_report(report, !clauses.empty());
  return report;
}

}  // namespace driftgate::stages
