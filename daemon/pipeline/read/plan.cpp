#include "daemon/pipeline/read/plan.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/read/plan_data.hpp"
#include "daemon/pipeline/requests/ability_gaps.hpp"
#include "daemon/pipeline/requests/rescoring_engines.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/promotions/spending.hpp"
#include "schema/contract/least_n.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::Stage;

constexpr std::uint64_t kPowerSeed = 1;
constexpr std::array kStages{Stage::offline_numeric, Stage::statistical_slice, Stage::shadow_runtime,
                             Stage::canary};

json clauses_json(const schema::Contract& contract, Stage stage, const schema::Runs& runs) {
  json list = json::array();
  for (const auto& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(stage)) == 0) continue;
    json needs = json::array();
    for (const auto& need : schema::least_n(clause, contract, runs)) {
      if (need.stage != stage) continue;
      needs.push_back({{"n", need.n ? json(*need.n) : json(nullptr)},
                       {"unit", need.unit},
                       {"alpha", need.alpha},
                       {"why", need.why}});
    }
    list.push_back({{"clause", clause.address()},
                    {"severity", schema::to_string(clause.severity)},
                    {"needs", std::move(needs)}});
  }
  return list;
}

json stage_plan(const schema::Contract& contract, Stage stage) {
  if (stage == Stage::shadow_runtime) {
    return {{"mirror_bp", contract.shadow.mirror_bp},
            {"min_duration_ms", contract.shadow.min_duration_ms},
            {"max_duration_ms", contract.shadow.max_duration_ms}};
  }
  if (stage != Stage::canary || !contract.canary) return nullptr;
  json steps = json::array();
  for (const auto& step : contract.canary->steps)
    steps.push_back({{"share_bp", step.share_bp},
                     {"approval", step.approval},
                     {"approvals", step.approval ? step.approvals : 0}});
  return {{"steps", std::move(steps)},
          {"soak_ms", contract.canary->soak_ms},
          {"bake_ms", contract.canary->bake_ms},
          {"min_keys", contract.canary->min_keys},
          {"holdback_bp", contract.canary->holdback_bp}};
}

/// Who holds the model, and what waits for it and would be superseded.
struct Queue {
  json holder = nullptr;
  json superseded = json::array();
};

schema::Result<Queue> queue_of(store::Reader& reader, const std::string& model) {
  auto newest = TRY(store::list_promotions(
      reader, {.model = model, .state = std::nullopt, .before = std::nullopt, .limit = 50}));
  Queue queue;
  for (const auto& other : newest) {
    if (store::holds_model(other.state)) queue.holder = other.id;
    if (other.state == store::PromotionState::queued) queue.superseded.push_back(other.id);
  }
  return queue;
}

/// Which run each stage's would be, on new data.
schema::Result<schema::Runs> runs_of(store::Reader& reader, const CheckedRequest& checked) {
  schema::Runs runs;
  for (const auto stage : kStages) {
    const auto key = TRY(store::spending_key(reader, checked.engine.checkpoint, checked.engine.kernel,
                                             checked.row.contract, schema::to_string(stage)));
    const auto k = TRY(store::next_run(reader, key));
    runs.set(stage, k);
  }
  return runs;
}

json unfit_json(const CheckedRequest& checked, const Settings& settings, const schema::Runs& runs) {
  json unfit = json::array();
  for (const auto& fit : unfit_data(*checked.contract, checked.request, settings.roots, kPowerSeed, runs)) {
    unfit.push_back({{"stage", schema::to_string(fit.stage)},
                     {"clause", fit.clause},
                     {"slice", fit.slice},
                     {"have", fit.have},
                     {"least", fit.least},
                     {"at_half", fit.at_half ? json(*fit.at_half) : json(nullptr)},
                     {"message", fit.sentence}});
  }
  return unfit;
}

/// Which engine would score live answers again after the promotion, or why none; null where the contract asks
/// for none.
schema::Result<json> rescoring_json(store::Reader& reader, const CheckedRequest& checked) {
  const auto& guard = checked.contract->guard;
  if (!guard || !guard->rescoring) return json(nullptr);
  const auto engines = TRY(find_rescoring_engines(reader, *checked.contract, checked.row.model,
                                                  checked.engine.name, checked.engine.checkpoint));
  const bool possible = engines.why.empty();
  return json{{"reference", possible ? json(engines.reference.name) : json(nullptr)},
              {"why_none", possible ? json(nullptr) : json(engines.why)}};
}

}  // namespace

schema::Result<View> plan_view(store::Store& store, const CheckedRequest& checked, const Settings& settings) {
  const auto& row = checked.row;
  auto queue = TRY(look_up(store, queue_of, row.model));
  auto rescoring = TRY(look_up(store, rescoring_json, checked));
  const auto runs = TRY(look_up(store, runs_of, checked));
  json stages = json::array();
  for (const auto stage : kStages) {
    stages.push_back({{"stage", schema::to_string(stage)},
                      {"run", runs.of(stage)},
                      {"clauses", clauses_json(*checked.contract, stage, runs)},
                      {"plan", stage_plan(*checked.contract, stage)}});
  }
  const json value{{"model", row.model},
                   {"engine", row.engine},
                   {"contract", row.contract},
                   {"contract_name", checked.contract_name},
                   {"starts_now", queue.holder.is_null()},
                   {"locks", {{"model", row.model}, {"held_by", queue.holder}}},
                   {"supersedes", queue.superseded},
                   {"stages", std::move(stages)},
                   {"unfit", unfit_json(checked, settings, runs)},
                   {"undecidable", gaps_json(checked.gaps)},
                   {"rescoring", std::move(rescoring)},
                   {"request", json::parse(row.request)}};
  return View{row.model, 0, false, schema::canonical_json(value)};
}

}  // namespace driftgate::pipeline
