#include "daemon/pipeline/machine/routes.hpp"

#include <algorithm>

namespace driftgate::pipeline::machine {

route::Arm arm(const store::VersionRow& version) {
  return {version.id, version.kernel, version.base_url};
}

route::ModelRoute next_route(const ModelState& model) {
  auto route = model.desired;
  route.revision = (route.epoch == model.epoch ? std::max(route.revision, model.given_revision) : 0) + 1;
  route.epoch = model.epoch;
  return route;
}

route::ModelRoute without_candidate(route::ModelRoute route) {
  route.candidate.reset();
  route.candidate_bp = 0;
  route.mirror_bp = 0;
  route.slices.clear();
  route.all_to_fallback = false;
  route.fallback.reset();
  return route;
}

void set_route(Change& change, route::ModelRoute route, std::string reason) {
  change.effects.emplace_back(ApplyRoute{route.model});
  change.route = {.route = std::move(route), .reason = std::move(reason)};
}

}  // namespace driftgate::pipeline::machine
