#include "daemon/pipeline/plan.hpp"

#include <nlohmann/json.hpp>

#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/models.hpp"
#include "schema/contract/least_n.hpp"
#include "schema/contract/stored_contract.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::Stage;

json clauses_json(const schema::Contract& contract, Stage stage) {
  json list = json::array();
  for (const auto& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(stage)) == 0) continue;
    json needs = json::array();
    for (const auto& need : schema::least_n(clause, contract)) {
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

}  // namespace

schema::Result<View> plan_view(store::Reader& reader, const store::PromotionRow& promotion) {
  auto stored = store::find_contract(reader, promotion.contract);
  if (!stored) return std::unexpected(stored.error());
  if (!*stored) return schema::fail(schema::ErrorCode::not_found, "the contract is gone");
  const auto report = schema::parse_stored_contract((*stored)->canonical, (*stored)->name);
  if (!report.contract)
    return schema::fail(schema::ErrorCode::corrupt, schema::format_faults(report.faults, (*stored)->name));
  auto newest = store::list_promotions(
      reader, {.model = promotion.model, .state = std::nullopt, .before = std::nullopt, .limit = 50});
  if (!newest) return std::unexpected(newest.error());
  json holder = nullptr;
  json superseded = json::array();
  for (const auto& other : *newest) {
    if (store::holds_model(other.state)) holder = other.id;
    if (other.state == store::PromotionState::queued) superseded.push_back(other.id);
  }
  json stages = json::array();
  for (const auto stage :
       {Stage::offline_numeric, Stage::statistical_slice, Stage::shadow_runtime, Stage::canary}) {
    stages.push_back({{"stage", schema::to_string(stage)},
                      {"clauses", clauses_json(*report.contract, stage)},
                      {"plan", stage_plan(*report.contract, stage)}});
  }
  const json value{
      {"model", promotion.model},       {"engine", promotion.engine},
      {"contract", promotion.contract}, {"contract_name", (*stored)->name},
      {"starts_now", holder.is_null()}, {"locks", {{"model", promotion.model}, {"held_by", holder}}},
      {"supersedes", superseded},       {"stages", std::move(stages)}};
  return View{promotion.model, 0, false, schema::canonical_json(value)};
}

}  // namespace driftgate::pipeline
