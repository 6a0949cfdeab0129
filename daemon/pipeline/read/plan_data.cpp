#include "daemon/pipeline/read/plan_data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/jobs/rooted_path.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "schema/contract/least_n.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/planning/power.hpp"

namespace driftgate::pipeline {
namespace {

using schema::SliceRole;
using schema::Stage;

/// The slices that a clause is decided on; the empty one is the whole corpus.
std::vector<schema::SliceWhere> slices_of(const schema::Contract& contract, const schema::Clause& clause,
                                          Stage stage) {
  std::vector<schema::SliceWhere> slices;
  if (stage == Stage::statistical_slice) {
    // Monitored slices that lack data are listed and do not block.
    const bool critical = std::ranges::find(clause.slices, SliceRole::critical) != clause.slices.end();
    if (critical) slices = contract.slices.critical;
    if (!clause.slices.empty()) return slices;
  }
  slices.emplace_back();
  return slices;
}

std::uint64_t count(const gpu::Corpus& corpus, const schema::SliceWhere& where, bool outcomes) {
  return static_cast<std::uint64_t>(std::ranges::count_if(corpus.sequences, [&](const auto& info) {
    return gpu::in_slice(info, where) && (!outcomes || (info.correct_train && info.correct_inf));
  }));
}

std::string sentence(const DataFit& fit, const std::string& unit) {
  const std::string place = fit.slice.empty() ? "" : " on " + fit.slice;
  if (fit.have < fit.least) {
    return fmt::format("{}{} cannot pass: the corpus has {} {} and it takes {} even when nothing goes wrong",
                       fit.clause, place, fit.have, unit, fit.least);
  }
  return fmt::format(
      "{}{} will often be inconclusive: the corpus has {} {}, and with the truth at half the limit "
      "it takes about {}",
      fit.clause, place, fit.have, unit, fit.at_half.value_or(0));
}

/// What a clause lacks in the corpus of a stage, for each slice where it does. `at_half` as in DataFit.
void check_clause(const schema::Contract& contract, const schema::Clause& clause, Stage stage,
                  const schema::Runs& runs, const gpu::Corpus& corpus, std::optional<std::uint64_t> at_half,
                  std::vector<DataFit>& out) {
  const bool outcomes = std::holds_alternative<schema::OutcomeSubject>(clause.subject);
  for (const schema::LeastN& need : schema::least_n(clause, contract, runs)) {
    if (need.stage != stage || need.counted || !need.n) continue;
    for (const auto& where : slices_of(contract, clause, stage)) {
      DataFit fit{clause.address(),
                  schema::slice_text(where),
                  stage,
                  count(corpus, where, outcomes),
                  *need.n,
                  at_half,
                  {}};
      if (!where.empty())
        fit.least = std::max<std::uint64_t>(fit.least, schema::min_sequences_of(clause, contract));
      if (fit.have >= fit.least && (!fit.at_half || fit.have >= *fit.at_half)) continue;
      fit.sentence = sentence(fit, need.unit);
      out.push_back(std::move(fit));
    }
  }
}

}  // namespace

std::vector<DataFit> unfit_data(const schema::Contract& contract, const PromotionRequest& request,
                                const std::vector<std::string>& roots, std::uint64_t seed,
                                const schema::Runs& runs) {
  std::vector<DataFit> unfit;
  const auto powers = stages::power_at_half(contract, seed, runs);
  const auto look = [&](Stage stage, const std::optional<StageCaptures>& captures) {
    if (!captures || captures->corpus.empty()) return;
    auto path = jobs::resolve_below(captures->corpus, roots);
    auto corpus = path ? gpu::read_corpus(*path) : std::unexpected(path.error());
    if (!corpus) {
      unfit.push_back({{}, {}, stage, 0, 0, {}, "the corpus cannot be read: " + corpus.error().describe()});
      return;
    }
    for (const schema::Clause& clause : contract.clauses) {
      if ((clause.stages & schema::stage_bit(stage)) == 0) continue;
      const auto power = std::ranges::find_if(
          powers, [&](const auto& item) { return item.clause == clause.address() && item.stage == stage; });
      check_clause(contract, clause, stage, runs, *corpus, power == powers.end() ? std::nullopt : power->n,
                   unfit);
    }
  };
  look(Stage::offline_numeric, request.numeric);
  look(Stage::statistical_slice, request.slice);
  return unfit;
}

}  // namespace driftgate::pipeline
