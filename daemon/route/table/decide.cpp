#include "daemon/route/table/decide.hpp"

#include <algorithm>

namespace driftgate::route {
namespace {

void send_to(Decision& decision, Served served, const Arm& arm) {
  decision.served = served;
  decision.arm = &arm;
}

void decide_by_share(Decision& decision, const ModelRoute& route, std::string_view key,
                     const SliceAttributes& slice, KeyHash hash) {
  decision.candidate_bp = route.candidate ? route.candidate_bp : 0;
  for (const auto& weight : route.slices) {
    if (!matches(weight.where, slice)) continue;
    if (weight.to_fallback && route.fallback) {
      decision.candidate_bp = 0;
      send_to(decision, Served::fallback, *route.fallback);
      return;
    }
    decision.candidate_bp = route.candidate ? weight.candidate_bp : 0;
    break;
  }
  if (decision.candidate_bp > 0 && bucket_of(key, route.seed, hash) < decision.candidate_bp) {
    send_to(decision, Served::candidate, *route.candidate);
  }
}

}  // namespace

Decision decide(const ModelRoute& route, std::string_view key, const SliceAttributes& slice, KeyHash hash) {
  Decision decision;
  send_to(decision, Served::incumbent, route.incumbent);
  if (route.all_to_fallback && route.fallback) {
    send_to(decision, Served::fallback, *route.fallback);
    return decision;
  }
  if (!route.pins.empty()) {
    const auto pin = route.pins.find(std::string(key));
    if (pin != route.pins.end()) {
      decision.pinned = true;
      decision.candidate_bp = route.candidate ? route.candidate_bp : 0;
      if (pin->second == "candidate" && route.candidate)
        send_to(decision, Served::candidate, *route.candidate);
      return decision;
    }
  }
  decide_by_share(decision, route, key, slice, hash);
  decision.mirror = decision.served == Served::incumbent && route.mirror_bp > 0 &&
                    route.mirror_token_budget > 0 &&
                    mirror_bucket_of(key, route.seed, hash) < route.mirror_bp;
  return decision;
}

Decision decide_placed(const ModelRoute& route) {
  Decision decision;
  send_to(decision, Served::incumbent, route.incumbent);
  decision.mirror = route.mirror_token_budget > 0 && route.mirror_bp > 0;
  return decision;
}

ModelRoute effective_route(ModelRoute route, bool reverted) {
  if (!reverted) return route;
  route.candidate_bp = 0;
  route.mirror_bp = 0;
  for (auto& weight : route.slices) weight.candidate_bp = 0;
  std::erase_if(route.pins, [](const auto& pin) { return pin.second == "candidate"; });
  return route;
}

bool exposes_candidate(const ModelRoute& route) {
  if (!route.candidate) return false;
  return route.candidate_bp > 0 || route.mirror_bp > 0 ||
         std::ranges::any_of(route.slices,
                             [](const SliceWeight& weight) { return weight.candidate_bp > 0; }) ||
         std::ranges::any_of(route.pins, [](const auto& pin) { return pin.second == "candidate"; });
}

}  // namespace driftgate::route
