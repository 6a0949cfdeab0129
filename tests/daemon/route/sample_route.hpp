#pragma once

#include "daemon/route/table/route.hpp"

namespace driftgate::route {

/// A route with three arms and no candidate exposure.
inline ModelRoute sample_route() {
  ModelRoute route;
  route.model = "tiny";
  route.epoch = 1;
  route.revision = 1;
  route.stage_key = "p1/canary/1";
  route.seed = 99;
  route.incumbent = {"v1", "f32", "http://127.0.0.1:1001"};
  route.candidate = Arm{"v2", "int8", "http://127.0.0.1:1002"};
  route.fallback = Arm{"v0", "f32", "http://127.0.0.1:1003"};
  return route;
}

}  // namespace driftgate::route
