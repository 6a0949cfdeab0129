#include "daemon/pipeline/figures/standings.hpp"

#include <algorithm>

#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {

bool is_alarming(const LiveGuard& guard) {
  const bool identity = guard.identity.watch && guard.identity.watch->told();
  const bool rescoring = guard.rescoring.watch && guard.rescoring.watch->alarming();
  return guard.tests.alarming() || guard.probes.alarming || identity || rescoring || guard.orders.pending;
}

std::int64_t telemetry_age_ms(const ModelState& model, std::int64_t now_us) {
  return model.last_window_us == 0 ? -1 : std::max<std::int64_t>(0, (now_us - model.last_window_us) / 1'000);
}

std::vector<ModelStanding> standings(const Context& context) {
  constexpr double kWhole_bp = 10'000;
  std::map<std::string_view, const Live*> holders;
  for (const auto& [id, live] : context.promotions)
    if (store::holds_model(live->row.state)) holders[live->row.model] = live.get();
  std::vector<ModelStanding> list;
  list.reserve(context.models.size());
  for (const auto& [name, model] : context.models) {
    ModelStanding standing{.model = name, .agrees = model.agreed};
    if (model.desired.candidate) standing.share = model.desired.candidate_bp / kWhole_bp;
    if (const auto held = holders.find(name); held != holders.end()) {
      standing.state = store::to_string(held->second->row.state);
      standing.stage = held->second->row.stage;
      standing.watched = standing.stage == schema::to_string(schema::Stage::shadow_runtime) ||
                         standing.stage == schema::to_string(schema::Stage::canary);
      standing.telemetry_age_ms = telemetry_age_ms(model, context.now());
    }
    if (const auto guard = context.guards.find(name); guard != context.guards.end()) {
      standing.guarded = true;
      standing.alarming = is_alarming(*guard->second);
    }
    list.push_back(std::move(standing));
  }
  return list;
}

}  // namespace driftgate::pipeline
