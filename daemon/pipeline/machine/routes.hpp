#pragma once

#include "daemon/pipeline/change.hpp"

// What happens to a model's desired route. Pure.
namespace driftgate::pipeline::machine {

[[nodiscard]] route::Arm arm(const store::VersionRow& version);
/// The desired route under its next revision.
[[nodiscard]] route::ModelRoute next_route(const ModelState& model);
/// `route` with everything on the incumbent: no candidate, no copies, nothing on the fallback.
[[nodiscard]] route::ModelRoute without_candidate(route::ModelRoute route);
/// `change` desires `route`, which is applied after the COMMIT.
void set_route(Change& change, route::ModelRoute route, std::string reason);

}  // namespace driftgate::pipeline::machine
