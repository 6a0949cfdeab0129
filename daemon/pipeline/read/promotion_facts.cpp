#include "daemon/pipeline/read/promotion_facts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/base/json_members.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "schema/verdict.hpp"
#include "stages/report/advice.hpp"

namespace driftgate::pipeline {
namespace {

using store::PromotionState;

/// The rows of a page and the keys by which the rest is read.
struct Keys {
  std::vector<std::string> all, running, awaiting, inconclusive, queued_models, models, versions, contracts;
};

std::vector<std::string> without_repetitions(const std::set<std::string>& keys) {
  return {keys.begin(), keys.end()};
}

Keys keys_of(std::span<const store::PromotionRow> rows) {
  Keys keys;
  std::set<std::string> models, queued, versions, contracts;
  for (const auto& row : rows) {
    keys.all.push_back(row.id);
    if (row.state == PromotionState::running) keys.running.push_back(row.id);
    if (row.state == PromotionState::awaiting_approval) keys.awaiting.push_back(row.id);
    if (row.state == PromotionState::inconclusive) keys.inconclusive.push_back(row.id);
    if (row.state == PromotionState::queued) queued.insert(row.model);
    models.insert(row.model);
    contracts.insert(row.contract);
    for (const auto& version : {row.candidate, row.baseline})
      if (!version.empty()) versions.insert(version);
  }
  keys.models = without_repetitions(models);
  keys.queued_models = without_repetitions(queued);
  keys.versions = without_repetitions(versions);
  keys.contracts = without_repetitions(contracts);
  return keys;
}

/// The share that the route gives the candidate.
std::uint32_t share_of(const nlohmann::json& route, const std::string& candidate) {
  if (base::text_at(base::object_at(route, "incumbent"), "version") == candidate) return 10'000;
  if (base::text_at(base::object_at(route, "candidate"), "version") != candidate) return 0;
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(base::integer_at(route, "candidate_bp"), 0, 10'000));
}

/// Adds what is read for all to each of the promotions.
class Gathering {
 public:
  Gathering(store::Reader& reader, std::span<const store::PromotionRow> rows, const Sources& sources)
      : reader_(reader), sources_(sources), keys_(keys_of(rows)) {
    facts_.reserve(rows.size());
    for (const auto& row : rows) facts_.push_back({.row = row});
    for (auto& facts : facts_) by_id_[facts.row.id] = &facts;
  }

  schema::Result<std::vector<PromotionFacts>> all() {
    TRY(add_names());
    TRY(add_runs());
    TRY(add_verdicts());
    TRY(add_jobs());
    TRY(add_approvals());
    TRY(add_undecided());
    TRY(add_model());
    return std::move(facts_);
  }

 private:
  schema::Result<void> add_names() {
    ContractCache fresh;
    auto& cache = sources_.contracts != nullptr ? *sources_.contracts : fresh;
    const auto contracts = TRY(cache.of(reader_, keys_.contracts));
    const auto versions = TRY(store::versions_of(reader_, keys_.versions));
    std::map<std::string, const store::VersionRow*> known;
    for (const auto& version : versions) known[version.id] = &version;
    const auto version_of = [&](const std::string& id) {
      const auto found = known.find(id);
      return found == known.end() ? std::nullopt : std::optional(*found->second);
    };
    for (auto& facts : facts_) {
      facts.candidate = version_of(facts.row.candidate);
      facts.baseline = version_of(facts.row.baseline);
      const auto contract = contracts.find(facts.row.contract);
      if (contract == contracts.end()) continue;
      facts.contract_name = contract->second.name;
      facts.contract = contract->second.contract;
    }
    return {};
  }

  schema::Result<void> add_runs() {
    auto runs = TRY(store::stage_runs_of(reader_, keys_.all));
    for (auto& run : runs) {
      auto& facts = *by_id_.at(run.key.promotion);
      auto progress = progress_from_json(run.progress);
      facts.runs.push_back({.row = std::move(run), .progress = std::move(progress)});
    }
    return {};
  }

  /// The run of a key that was read; null when there is none.
  RunFacts* run_of(const store::StageKey& key) {
    const auto facts = by_id_.find(key.promotion);
    if (facts == by_id_.end()) return nullptr;
    const auto run =
        std::ranges::find(facts->second->runs, key, [](const RunFacts& one) { return one.row.key; });
    return run == facts->second->runs.end() ? nullptr : &*run;
  }

  bool is_newest(const store::StageKey& key) {
    const auto* const run = run_of(key);
    return run != nullptr && run == by_id_.at(key.promotion)->newest();
  }

  schema::Result<void> add_verdicts() {
    const auto counts = TRY(store::verdict_counts_of(reader_, keys_.all));
    for (const auto& count : counts)
      if (auto* const run = run_of(count.stage)) run->counts[count.verdict] = count.count;
    auto open = TRY(store::open_verdicts_of(reader_, keys_.all));
    for (auto& verdict : open)
      if (is_newest(verdict.stage))
        by_id_.at(verdict.stage.promotion)->not_passed.push_back(std::move(verdict));
    return {};
  }

  schema::Result<void> add_jobs() {
    const auto jobs = TRY(store::running_jobs_of(reader_, keys_.running));
    for (const auto& job : jobs) {
      auto* const run = run_of(job.stage);
      if (run == nullptr || run->job) continue;
      run->job = RunningJob{.name = job.name, .id = job.id};
      if (sources_.runner == nullptr) continue;
      const auto key = job_key(job.stage, job.name);
      run->job->progress = sources_.runner->progress(key);
      run->job->place = sources_.runner->place(key);
    }
    return {};
  }

  schema::Result<void> add_approvals() {
    const auto approvals = TRY(store::approvals_of(reader_, keys_.awaiting));
    for (const auto& id : keys_.awaiting) {
      auto& facts = *by_id_.at(id);
      const auto* const run = facts.canary();
      if (run == nullptr) continue;
      if (facts.contract) facts.quorum = quorum_of(*facts.contract, run->row.step);
      facts.approvals = counted_approvals(approvals, run->row, run->progress.approval_digest, facts.quorum,
                                          sources_.now_us);
    }
    return {};
  }

  schema::Result<void> add_undecided() {
    const auto verdicts = TRY(store::undecided_of(reader_, keys_.inconclusive));
    for (const auto& row : verdicts) {
      if (!is_newest(row.stage)) continue;
      const auto verdict = schema::clause_verdict_from_json(row.detail);
      // Alone it makes the stage inconclusive: it is hard and blocks.
      if (!verdict || schema::combine({*verdict}, verdict->rules) != schema::Verdict::inconclusive) continue;
      auto& facts = *by_id_.at(row.stage.promotion);
      facts.undecided.push_back({row.clause, row.slice, verdict->message, stages::advice(*verdict)});
    }
    for (const auto& id : keys_.inconclusive) TRY(add_clauses(*by_id_.at(id)));
    return {};
  }

  /// As a waiver names them: by the report. Of each promotion on its own, since few are inconclusive at once.
  schema::Result<void> add_clauses(PromotionFacts& facts) {
    const auto* const run = facts.newest();
    if (run == nullptr || facts.canary() != nullptr) return {};
    auto open = open_clauses(reader_, run->row);
    // A report that cannot be read must not hide the other promotions of a list; a waiver is refused with
    // why.
    if (!open && open.error().code == schema::ErrorCode::corrupt) return {};
    if (!open) return std::unexpected(open.error());
    facts.to_waive = std::move(*open);
    return {};
  }

  schema::Result<void> add_model() {
    const auto models = TRY(store::models_of(reader_, keys_.models));
    const auto routes = TRY(store::applied_routes_of(reader_, keys_.models));
    const auto holders = TRY(store::holders_of(reader_, keys_.queued_models));
    std::map<std::string, nlohmann::json> applied;
    for (const auto& route : routes)
      applied[route.model] = nlohmann::json::parse(route.route, nullptr, false);
    for (auto& facts : facts_) {
      const auto& name = facts.row.model;
      const auto model = std::ranges::find(models, name, &store::ModelRow::name);
      if (model != models.end()) facts.model = *model;
      const auto route = applied.find(name);
      if (route != applied.end()) facts.share_bp = share_of(route->second, facts.row.candidate);
      const auto holder = std::ranges::find(holders, name, &store::Holder::model);
      const bool waits = facts.row.state == PromotionState::queued && holder != holders.end();
      if (waits) facts.holder = holder->promotion;
      const auto* const blackout =
          schedule::find_blackout(sources_.blackouts, name, sources_.now_us / 1'000'000);
      if (blackout != nullptr) facts.blackout = blackout->text;
    }
    return {};
  }

  store::Reader& reader_;
  const Sources& sources_;
  const Keys keys_;
  std::vector<PromotionFacts> facts_;
  std::map<std::string, PromotionFacts*, std::less<>> by_id_;
};

}  // namespace

const RunFacts* PromotionFacts::canary() const {
  const auto* const run = newest();
  return run != nullptr && run->row.key.stage == schema::to_string(schema::Stage::canary) ? run : nullptr;
}

schema::Result<std::vector<PromotionFacts>> gather(store::Reader& reader,
                                                   std::span<const store::PromotionRow> rows,
                                                   const Sources& sources) {
  return Gathering(reader, rows, sources).all();
}

}  // namespace driftgate::pipeline
