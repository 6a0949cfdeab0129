#include "daemon/drift/make_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "stages/offline_numeric.hpp"
#include "stages/slices/slice_search.hpp"
#include "stages/statistical_slice.hpp"

namespace driftgate::drift {

namespace {

using schema::Verdict;

constexpr std::uint64_t kSeed = 1;  // of the resamplings; recorded with each verdict
constexpr double kAlphaWithoutContract = 0.05;
constexpr std::size_t kMaxChains = 64;  // slices with bounds of their own, where no contract names any

std::vector<std::string> warnings_of(const ReportInputs& inputs, const gpu::MeasurementTable& table,
                                     const ReportContext& context) {
  std::vector<std::string> out;
  if (context.core_metrics_only && !inputs.partial) {
    out.emplace_back(
        "--metrics core: tv, js, hellinger2, chi2, entropies, logit_rms, topk_overlap and top1_margin were "
        "not "
        "measured, so clauses and bounds on them cannot be decided");
  }
  const auto compare = [&out](std::string_view side, const std::string& ref, const std::string& kernel) {
    if (ref.empty() || ref == kernel) return;
    out.push_back(
        fmt::format("the contract names the {} kernel '{}' and the capture says '{}'", side, ref, kernel));
  };
  if (inputs.contract != nullptr) {
    compare("train", inputs.contract->train_kernel, table.train.kernel);
    compare("inf", inputs.contract->inf_kernel, table.inf.kernel);
  }
  if (const std::string& filter = table.inf.sampling_filter; filter != "none") {
    out.push_back("the logits were captured after the sampling filter '" + filter +
                  "': no bound holds for them");
  }
  if (!inputs.has_tokens)
    out.emplace_back("the captures have no token_ids: there are no figures from target tokens");
  return out;
}

schema::SliceRole role_of(const schema::Contract* contract, const gpu::SliceAttributes& where) {
  if (contract == nullptr) return schema::SliceRole::described;
  const auto& critical = contract->slices.critical;
  return std::ranges::find(critical, where) != critical.end() ? schema::SliceRole::critical
                                                              : schema::SliceRole::monitored;
}

/// The floors over the corpus.
std::vector<DriftFloor> floors_beside(const MeasuredFloors& measured) {
  std::vector<DriftFloor> out;
  for (const stages::FloorSide side : stages::kFloorSides) {
    const gpu::MeasurementTable* table = measured.view().of(side).table;
    if (table != nullptr)
      out.push_back({side, table->train.kernel, table->nonfinite_rows, gpu::summarise(*table)});
  }
  return out;
}

/// The chains of the corpus and of the slices that the table describes.
void add_chains(const gpu::MeasurementTable& table, DriftReport& report) {
  std::vector<schema::SliceWhere> slices;
  for (const gpu::SliceHistograms& slice : table.slices) {
    if (!slice.where.empty()) slices.push_back(slice.where);
  }
  if (slices.size() > kMaxChains) {
    report.bounds_note =
        fmt::format("The certificate covers the first {} of {} slices.", kMaxChains, slices.size());
    report.notes.push_back(report.bounds_note);
    slices.resize(kMaxChains);
  }
  report.bounds = stages::bound_chains(table, {}, slices, report.alpha, report.seed);
  stages::add_floor_values(report.bounds, report.floor_tables, {});
}

/// Decides the clauses that captures can decide and lists the others.
void decide(const schema::Contract& contract, const gpu::MeasurementTable& table,
            const stages::Floors& floors, DriftReport& report) {
  stages::StageInputs inputs;
  inputs.alpha = contract.confidence.alpha;  // a preview, not a stage: nothing is spent
  inputs.seed = kSeed;
  inputs.floors = floors;
  auto numeric = stages::evaluate_offline_numeric(contract, table, inputs);
  auto slices = stages::evaluate_statistical_slice(contract, table, inputs);
  report.has_contract = true;
  report.contract_name = contract.name;
  report.contract_digest = contract.digest;
  report.bounds = std::move(numeric.bounds);
  report.ranking = std::move(slices.ranking);
  for (auto* stage : {&numeric, &slices}) {
    std::ranges::move(stage->clauses, std::back_inserter(report.verdicts));
    std::ranges::move(stage->notes, std::back_inserter(report.notes));
  }
  report.verdict = report.verdicts.empty() ? Verdict::pass : schema::combine(report.verdicts);
  const schema::StageSet captures =
      schema::stage_bit(schema::Stage::offline_numeric) | schema::stage_bit(schema::Stage::statistical_slice);
  for (const schema::Clause& clause : contract.clauses) {
    if ((clause.stages & captures) == 0) report.not_evaluated.push_back(clause.address());
  }
}

/// Adds every other slice, including those that the search found: their figures over all sequences, without
/// quantiles, since no histogram of them was kept.
void add_others(const gpu::MeasurementTable& table, const schema::Contract& contract, DriftReport& report) {
  std::set<schema::SliceWhere> known;
  for (const DriftSlice& slice : report.slices) known.insert(slice.summary.where);
  for (const auto& [where, role] : stages::other_slices(table, contract.slices, report.verdicts, known)) {
    report.slices.push_back({gpu::summarise(table, where), role});
  }
}

}  // namespace

int exit_code_of(schema::Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return 0;
    case Verdict::violated:
      return 1;
    case Verdict::inconclusive:
      return 3;
    case Verdict::error:
      break;
  }
  return 4;
}

DriftReport make_report(const ReportInputs& inputs, const gpu::MeasurementTable& table,
                        const ReportContext& context) {
  DriftReport report;
  report.device = context.device;
  report.shard = context.shard;
  report.table = &table;
  report.corpus = gpu::summarise(table);
  report.warnings = warnings_of(inputs, table, context);
  report.floors = floors_beside(inputs.floors);
  report.floor_tables = inputs.floors.view();
  report.diagnosis = stages::diagnose(table, report.floor_tables);
  report.alpha = inputs.contract != nullptr ? inputs.contract->confidence.alpha : kAlphaWithoutContract;
  report.seed = kSeed;
  for (const gpu::SliceHistograms& slice : table.slices) {
    if (slice.where.empty()) continue;
    report.slices.push_back({gpu::summarise(table, slice.where), role_of(inputs.contract, slice.where)});
  }
  if (inputs.contract != nullptr) {
    decide(*inputs.contract, table, inputs.floors.view(), report);
    add_others(table, *inputs.contract, report);
  } else {
    add_chains(table, report);
  }
  return report;
}

DriftReport make_report(const Inputs& inputs, const gpu::MeasurementTable& table,
                        const ReportContext& context) {
  const ReportInputs of_files{inputs.terms(), inputs.floors, inputs.train.has_tokens(),
                              gpu::is_partial(inputs.train.mode())};
  return make_report(of_files, table, context);
}

}  // namespace driftgate::drift
