#include "daemon/pipeline/read/guard_view.hpp"

#include <nlohmann/json.hpp>

#include "daemon/pipeline/guard/live_guard.hpp"
#include "daemon/pipeline/requests/checked_request.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;

/// A test on live traffic, with its detector beside the value at which it alarms.
json watch_json(const schema::ClauseVerdict& verdict) {
  const auto detail = [&](const char* name) { return verdict.details.at(name); };
  return {{"clause", verdict.clause},
          {"slice", schema::slice_text(verdict.where)},
          {"limit", verdict.threshold.value_or(0)},
          {"seen", verdict.n},
          {"events", detail("events")},
          {"value", verdict.e_value.value_or(0)},
          {"needed", detail("e_harm_needed")},
          {"alarming", verdict.verdict == schema::Verdict::violated},
          {"message", verdict.message}};
}

struct Traffic {
  json watches = json::array();
  double probe_share = 0, rescoring_share = 0;
  bool dependent = false;
};

schema::Result<Traffic> traffic_of(const store::GuardRow& row, const schema::Contract& contract) {
  auto tests = TRY(stages::GuardState::deserialise(contract, row.traffic, {}));
  const auto decision = tests.decide();
  Traffic traffic{.probe_share = tests.probe_share(),
                  .rescoring_share = tests.rescoring_share(),
                  .dependent = decision.dependent};
  for (const auto& verdict : decision.verdicts) traffic.watches.push_back(watch_json(verdict));
  return traffic;
}

json probes_json(const GuardProbes& probes, const schema::ProbePlan& plan, double share) {
  if (plan.prompts == 0) return nullptr;
  json value{{"prompts", probes.prompts.size()},
             {"why_none", probes.why.empty() ? json(nullptr) : json(probes.why)},
             {"armed", probes.watch && probes.watch->armed()},
             {"alarming", probes.alarming},
             {"newest_us", probes.newest_us == 0 ? json(nullptr) : json(probes.newest_us)},
             {"unanswered", probes.unanswered},
             {"tokens_of_day", probes.tokens},
             {"budget_tokens", plan.budget_tokens}};
  if (!probes.watch) return value;
  const auto figures = probes.watch->figures();
  value["asked"] = figures.asked;
  value["compared"] = figures.compared;
  value["value"] = probes.watch->value();
  value["needed"] = share > 0 ? 1 / share : 0;
  value["floor_largest"] = figures.floor_largest;
  value["newest_distance"] = figures.newest_distance;
  return value;
}

/// A test on rescored answers.
json drift_json(const schema::ClauseVerdict& verdict) {
  return {{"clause", verdict.clause},
          {"slice", schema::slice_text(verdict.where)},
          {"limit_kind", verdict.limit_kind},
          {"limit", verdict.threshold.value_or(0)},
          {"answers", verdict.n},
          {"figure", verdict.estimate ? json(*verdict.estimate) : json(nullptr)},
          {"value", verdict.e_value.value_or(0)},
          {"needed", verdict.details.at("e_harm_needed")},
          {"alarming", verdict.verdict == schema::Verdict::violated},
          {"message", verdict.message}};
}

json rescoring_json(GuardRescoring rescoring, const std::optional<schema::RescoringPlan>& plan) {
  if (!plan) return nullptr;
  json watches = json::array();
  if (rescoring.watch) {
    for (const auto& verdict : rescoring.watch->decide().verdicts) watches.push_back(drift_json(verdict));
  }
  return {{"why_none", rescoring.why.empty() ? json(nullptr) : json(rescoring.why)},
          {"reference", rescoring.reference.empty() ? json(nullptr) : json(rescoring.reference)},
          {"share_bp", plan->share_bp},
          {"answers", rescoring.watch ? rescoring.watch->answers() : 0},
          {"filtered", rescoring.watch ? rescoring.watch->filtered() : 0},
          {"alarming", rescoring.watch && rescoring.watch->alarming()},
          {"newest_us", rescoring.newest_us == 0 ? json(nullptr) : json(rescoring.newest_us)},
          {"unanswered", rescoring.unanswered},
          {"unanswered_why", rescoring.unanswered_why},
          {"tokens_of_day", rescoring.tokens},
          {"budget_tokens", plan->budget_tokens},
          {"watches", std::move(watches)}};
}

json identity_json(const GuardIdentity& identity) {
  json value{{"newest_us", identity.newest_us == 0 ? json(nullptr) : json(identity.newest_us)},
             {"members", nullptr},
             {"changes", json::array()}};
  if (!identity.watch) return value;
  value["members"] = identity.watch->promoted();
  for (const auto& change : identity.watch->last())
    value["changes"].push_back({{"name", change.name}, {"promoted", change.promoted}, {"now", change.now}});
  return value;
}

json orders_json(const GuardOrders& orders) {
  json pending = nullptr;
  if (orders.pending)
    pending = {{"action", schema::to_string(orders.pending->action)}, {"reason", orders.pending->reason}};
  json slices = json::array();
  for (const auto& where : orders.away) slices.push_back(schema::slice_text(where));
  return {
      {"pending", pending}, {"all_on_fallback", orders.all_away}, {"slices_on_fallback", std::move(slices)}};
}

}  // namespace

schema::Result<json> guard_json(store::Reader& reader, const std::string& model) {
  const auto row = TRY(store::find_newest_guard(reader, model));
  if (!row) return json(nullptr);
  const auto stored = TRY(store::find_contract(reader, row->contract));
  if (!stored)
    return schema::fail(schema::ErrorCode::corrupt, "the contract of guard " + row->id + " is not stored");
  const auto contract = TRY(parse_contract_row(*stored));
  const auto traffic = TRY(traffic_of(*row, *contract));
  const auto probes = TRY(guard_probes_from_json(row->probes));
  const auto identity = TRY(guard_identity_from_json(row->identity));
  const auto orders = TRY(guard_orders_from_json(row->orders));
  const auto rescoring =
      TRY(guard_rescoring_from_json(row->rescoring, *contract, traffic.rescoring_share, row->armed_us));
  const schema::GuardPlan plan = contract->guard.value_or(schema::GuardPlan{});
  return json{{"id", row->id},
              {"promotion", row->promotion},
              {"version", row->version},
              {"armed", !row->ended_us},
              {"since_us", row->armed_us},
              {"ended_us", row->ended_us ? json(*row->ended_us) : json(nullptr)},
              {"reason", row->reason},
              {"alarms", row->alarms},
              {"mean_time_between_false_alarms_ms", plan.mean_time_between_false_alarms_ms},
              {"watches", traffic.watches},
              {"failures_cluster", traffic.dependent},
              {"probes", probes_json(probes, plan.probes, traffic.probe_share)},
              {"identity", identity_json(identity)},
              {"rescoring", rescoring_json(rescoring, plan.rescoring)},
              {"orders", orders_json(orders)}};
}

}  // namespace driftgate::pipeline
