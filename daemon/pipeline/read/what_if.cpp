#include "daemon/pipeline/read/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/pipeline/requests/checked_request.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/contract/least_n.hpp"
#include "schema/json.hpp"
#include "schema/verdict_rule.hpp"
#include "stages/canary/canary.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/report/wording.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistical_slice.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ClauseVerdict;
using schema::ErrorCode;
using schema::Stage;
using schema::Verdict;

/// What is stored of the newest attempt at one stage.
struct StoredStage {
  store::StageKey key;
  std::vector<ClauseVerdict> verdicts;
  json report;                               ///< null when the attempt has none
  std::map<std::string, std::string> blobs;  ///< tables and pairs that the report names, by digest
};

schema::Result<void> load_blob(store::Reader& reader, const json& report, const char* member,
                               StoredStage& stage) {
  const std::string digest = report.value(member, "");
  if (digest.empty()) return {};
  auto blob = TRY(store::find_blob(reader, digest));
  if (blob) stage.blobs.emplace(digest, std::move(blob->bytes));
  return {};
}

/// The verdicts that a report lists; where there is none, the newest row of each clause and slice.
schema::Result<std::vector<ClauseVerdict>> load_verdicts(store::Reader& reader, const store::StageKey& key,
                                                         const json& report) {
  std::vector<std::string> texts;
  if (report.is_object()) {
    for (const json& item : report.value("verdicts", json::array())) texts.push_back(item.dump());
  } else {
    auto rows = TRY(store::list_verdicts(reader, key));
    for (const auto& row : rows) texts.push_back(row.detail);
  }
  std::vector<ClauseVerdict> verdicts;
  for (const std::string& text : texts) {
    auto verdict = TRY(schema::clause_verdict_from_json(text));
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

schema::Result<StoredStage> load_stage(store::Reader& reader, const store::StageRunRow& run) {
  StoredStage stage{run.key, {}, nullptr, {}};
  if (!run.report.empty()) {
    auto blob = TRY(store::find_blob(reader, run.report));
    if (blob) stage.report = json::parse(blob->bytes, nullptr, false);
  }
  auto verdicts = TRY(load_verdicts(reader, run.key, stage.report));
  stage.verdicts = std::move(verdicts);
  if (!stage.report.is_object()) return stage;
  TRY(load_blob(reader, stage.report, "table_digest", stage));
  TRY(load_blob(reader, stage.report, "pairs_digest", stage));
  for (const json& floor : stage.report.value("floors", json::array()))
    TRY(load_blob(reader, floor, "table_digest", stage));
  return stage;
}

/// The newest attempt at each stage, in the order of the stages.
schema::Result<std::vector<StoredStage>> load(store::Reader& reader, const std::string& promotion) {
  auto runs = TRY(store::list_stage_runs(reader, promotion));
  std::map<Stage, store::StageRunRow> newest;
  for (const auto& run : runs) {
    if (const auto stage = schema::stage_from_name(run.key.stage)) newest[*stage] = run;
  }
  std::vector<StoredStage> stages;
  for (const auto& [stage, run] : newest) {
    auto loaded = TRY(load_stage(reader, run));
    stages.push_back(std::move(loaded));
  }
  return stages;
}

/// The version of the rules by which the attempt was decided.
std::uint32_t rules_of(const StoredStage& stage) {
  if (!stage.verdicts.empty()) return stage.verdicts.front().rules;
  return stage.report.is_object() ? stage.report.value("rules", schema::kFirstRules) : schema::kFirstRules;
}

/// A stage decided again.
struct Again {
  std::vector<ClauseVerdict> verdicts;
  std::vector<std::string> notes;
};

schema::Result<std::optional<gpu::MeasurementTable>> table_of(const StoredStage& stage, const json& named) {
  const auto blob = stage.blobs.find(named.value("table_digest", ""));
  if (blob == stage.blobs.end()) return std::nullopt;
  auto table = TRY(gpu::deserialise(blob->second));
  return std::optional(std::move(table));
}

stages::StageInputs inputs_of(const StoredStage& stage) {
  stages::StageInputs inputs;
  inputs.alpha = schema::number_from_json(stage.report.value("alpha", json()));
  inputs.seed = std::strtoull(stage.report.value("seed", "0").c_str(), nullptr, 16);
  return inputs;
}

/// Every clause of the stage as one that cannot be decided, for one reason.
Again undecided(const schema::Contract& contract, Stage stage, const std::string& why) {
  Again again;
  for (const auto& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(stage)) == 0) continue;
    again.verdicts.push_back(
        stages::error_verdict(stages::begin_verdict(clause, {}, schema::SliceRole::corpus, 0, 0), why));
  }
  return again;
}

schema::Result<Again> fixed_again(const StoredStage& stored, Stage stage, const schema::Contract& contract) {
  auto table = TRY(table_of(stored, stored.report));
  if (!table) {
    return undecided(contract, stage,
                     "No measurement of this stage is stored, so this clause cannot be decided again.");
  }
  std::map<std::string, gpu::MeasurementTable> floor_tables;
  stages::StageInputs inputs = inputs_of(stored);
  for (const json& floor : stored.report.value("floors", json::array())) {
    auto measured = TRY(table_of(stored, floor));
    if (!measured) continue;
    const std::string side = floor.value("side", "");
    const auto& kept = floor_tables.emplace(side, std::move(*measured)).first->second;
    stages::Floor& slot =
        side == stages::to_string(stages::FloorSide::train) ? inputs.floors.train : inputs.floors.inf;
    slot = {&kept, floor.value("table_digest", "")};
  }
  auto report = stage == Stage::offline_numeric
                    ? stages::evaluate_offline_numeric(contract, *table, inputs)
                    : stages::evaluate_statistical_slice(contract, *table, inputs);
  return Again{std::move(report.clauses), std::move(report.notes)};
}

schema::Result<Again> shadow_again(const StoredStage& stored, const schema::Contract& contract) {
  const json facts = stored.report.value("shadow", json::object());
  const auto blob = stored.blobs.find(stored.report.value("pairs_digest", ""));
  if (blob == stored.blobs.end()) {
    return undecided(contract, Stage::shadow_runtime,
                     "The mirrored pairs of this stage are not stored, so this clause cannot be decided "
                     "again.");
  }
  auto pairs = TRY(jobs::pairs_from_jsonl(blob->second));
  auto realised = TRY(table_of(stored, stored.report));
  stages::ShadowInputs inputs;
  inputs.stage = inputs_of(stored);
  inputs.pairs = std::move(pairs);
  std::ranges::sort(inputs.pairs, {}, &stages::ShadowPair::order);
  inputs.realised = std::move(realised);
  inputs.reference =
      facts.value("reference", "") == "train" ? stages::Reference::train : stages::Reference::incumbent;
  inputs.logprobs_wanted = facts.value("logprobs_wanted", std::uint64_t{0});
  inputs.telemetry_age_ms = facts.value("telemetry_age_ms", std::int64_t{0});
  inputs.mirror_skipped = facts.value("mirror_skipped", std::uint64_t{0});
  inputs.can_rescore = facts.value("can_rescore", true);
  inputs.no_logprobs = facts.value("no_logprobs", "");
  auto report = stages::evaluate_shadow_runtime(contract, inputs);
  return Again{std::move(report.clauses), std::move(report.notes)};
}

/// The limit of a clause that a recorded verdict was decided by.
std::optional<double> limit_of(const schema::Limits& limits, const std::string& kind) {
  if (kind == "max") return limits.max;
  if (kind == "min") return limits.min;
  if (kind == "max_ratio") return limits.max_ratio;
  if (kind == "max_delta") return limits.max_delta;
  if (kind == "min_coverage") return limits.min_coverage;
  if (kind == "min_count" && limits.min_count) return static_cast<double>(*limits.min_count);
  if (kind == "max_staleness" && limits.max_staleness_ms)
    return static_cast<double>(*limits.max_staleness_ms);
  return std::nullopt;
}

/// A canary's recorded verdict under a clause whose limit may be another.
ClauseVerdict held_again(const ClauseVerdict& recorded, const schema::Clause& clause) {
  ClauseVerdict verdict = recorded;
  verdict.severity = clause.severity;
  // An engine that did not answer kept no limit on what it answers.
  if (recorded.limit_kind == stages::kBreakerLimit) return verdict;
  const auto limit = limit_of(clause.limits, recorded.limit_kind);
  if (limit && recorded.threshold && *limit == *recorded.threshold) return verdict;
  const bool figures = recorded.rule == schema::VerdictRule::arm_limits ||
                       recorded.rule == schema::VerdictRule::share_at_least ||
                       recorded.rule == schema::VerdictRule::count_at_least ||
                       recorded.rule == schema::VerdictRule::age_at_most;
  if (!limit || !figures) {
    return stages::error_verdict(
        std::move(verdict),
        "A canary stores no single requests, and its e-values hold for the limit that they "
        "were made with: this clause cannot be decided again.");
  }
  verdict.threshold = limit;
  verdict.no_harm_only = schema::requirement_of(clause) == schema::Requirement::no_harm;
  const auto follows = schema::rederive(verdict);
  if (!follows) return stages::error_verdict(std::move(verdict), follows.error().message);
  verdict.verdict = *follows;
  verdict.message =
      fmt::format("Held against {} by the limits recorded in the canary.", stages::figure(*limit));
  return verdict;
}

Again canary_again(const StoredStage& stored, const schema::Contract& contract) {
  Again again;
  for (const auto& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(Stage::canary)) == 0) continue;
    bool known = false;
    for (const ClauseVerdict& recorded : stored.verdicts) {
      if (recorded.clause != clause.address()) continue;
      known = true;
      again.verdicts.push_back(held_again(recorded, clause));
    }
    if (known) continue;
    again.verdicts.push_back(stages::error_verdict(
        stages::begin_verdict(clause, {}, schema::SliceRole::corpus, 0, 0),
        "This canary did not track the clause, and stores no single requests to decide it from."));
  }
  return again;
}

schema::Result<Again> decide_again(const StoredStage& stored, Stage stage, const schema::Contract& contract) {
  if (stage == Stage::canary) return canary_again(stored, contract);
  if (!stored.report.is_object()) {
    return undecided(contract, stage, "This stage has no report.");
  }
  return stage == Stage::shadow_runtime ? shadow_again(stored, contract)
                                        : fixed_again(stored, stage, contract);
}

using Place = std::array<std::string, 3>;  ///< clause, slice, kind of limit

std::map<Place, const ClauseVerdict*> by_place(const std::vector<ClauseVerdict>& verdicts) {
  std::map<Place, const ClauseVerdict*> places;
  for (const ClauseVerdict& verdict : verdicts)
    places[{verdict.clause, schema::slice_text(verdict.where), verdict.limit_kind}] = &verdict;
  return places;
}

json change_json(const Place& place, const ClauseVerdict* before, const ClauseVerdict* after) {
  const auto name = [](const ClauseVerdict* verdict) {
    return verdict == nullptr ? json(nullptr) : json(schema::to_string(verdict->verdict));
  };
  return {{"clause", place[0]},
          {"slice", place[1]},
          {"before", name(before)},
          {"after", name(after)},
          {"message", after != nullptr ? after->message : "The other contract does not demand it."}};
}

/// A canary keeps the figures of its own rules; the other stages are decided anew.
std::uint32_t rules_after(const StoredStage& stored, const Again& again) {
  return again.verdicts.empty() ? rules_of(stored) : again.verdicts.front().rules;
}

Verdict verdict_after(const StoredStage& stored, const Again& again) {
  return schema::combine(again.verdicts, rules_after(stored, again));
}

/// The worse of two stages' verdicts.
Verdict worse(Verdict a, Verdict b) {
  for (const Verdict verdict : {Verdict::violated, Verdict::error, Verdict::inconclusive}) {
    if (a == verdict || b == verdict) return verdict;
  }
  return Verdict::pass;
}

json stage_json(const StoredStage& stored, const Again& again) {
  const auto before = by_place(stored.verdicts);
  const auto after = by_place(again.verdicts);
  json changes = json::array();
  std::size_t same = 0;
  for (const auto& [place, verdict] : after) {
    const auto was = before.find(place);
    const ClauseVerdict* old = was == before.end() ? nullptr : was->second;
    if (old != nullptr && old->verdict == verdict->verdict) {
      ++same;
    } else {
      changes.push_back(change_json(place, old, verdict));
    }
  }
  for (const auto& [place, verdict] : before)
    if (!after.contains(place)) changes.push_back(change_json(place, verdict, nullptr));
  return {{"stage", stored.key.stage},
          {"attempt", stored.key.attempt},
          {"before", schema::to_string(schema::combine(stored.verdicts, rules_of(stored)))},
          {"rules", {{"before", rules_of(stored)}, {"after", rules_after(stored, again)}}},
          {"after", schema::to_string(verdict_after(stored, again))},
          {"changes", std::move(changes)},
          {"same", same},
          {"notes", again.notes}};
}

/// Stages that the contract has clauses for and that the promotion never began.
std::vector<std::string> not_begun(const schema::Contract& contract, const std::vector<StoredStage>& stored) {
  std::vector<std::string> missing;
  for (const Stage stage :
       {Stage::offline_numeric, Stage::statistical_slice, Stage::shadow_runtime, Stage::canary}) {
    const std::string name(schema::to_string(stage));
    const bool begun =
        std::ranges::any_of(stored, [&](const StoredStage& item) { return item.key.stage == name; });
    if (demands(contract, stage) && !begun) missing.push_back(name);
  }
  return missing;
}

}  // namespace

schema::Result<View> what_if(store::Store& store, const std::string& promotion,
                             const schema::Contract& contract, const std::stop_token& stop) {
  std::string before;
  auto stored = TRY(store.read([&](store::Reader& reader) -> schema::Result<std::vector<StoredStage>> {
    auto row = TRY(store::get_promotion(reader, promotion));
    before = row.contract;
    return load(reader, promotion);
  }));
  if (stored.empty()) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("promotion {} has not begun any stage, so there is nothing to decide again", promotion));
  }
  json stages = json::array();
  Verdict verdict = Verdict::pass;
  for (const StoredStage& stage : stored) {
    const auto name = schema::stage_from_name(stage.key.stage);
    if (!name) continue;
    if (stop.stop_requested())
      return schema::fail(ErrorCode::unavailable, "nobody waits for this what-if any more: it was stopped");
    auto again = TRY(decide_again(stage, *name, contract));
    stages.push_back(stage_json(stage, again));
    verdict = worse(verdict, verdict_after(stage, again));
  }
  const auto missing = not_begun(contract, stored);
  if (verdict == Verdict::pass && !missing.empty()) verdict = Verdict::inconclusive;
  const json value{{"promotion", promotion},
                   {"contract", {{"before", before}, {"after", contract.digest}}},
                   {"verdict", schema::to_string(verdict)},
                   {"not_begun", missing},
                   {"stages", std::move(stages)}};
  return View{promotion, 0, false, schema::canonical_json(value)};
}

}  // namespace driftgate::pipeline
