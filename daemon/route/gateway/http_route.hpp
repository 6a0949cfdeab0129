#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "daemon/route/gateway/target.hpp"
#include "daemon/route/health/engine.hpp"
#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

// A model's route as an HTTPRoute of the Gateway API (gateway.networking.k8s.io/v1), and what a Gateway says
// of it. Which of its requests pass the router is all that an HTTPRoute decides: users see a candidate
// through the router alone, which knows sticky keys, holds the lease and counts (docs/data_planes.md).
namespace driftgate::route::gateway {

/// The label that HTTPRoutes of an installation bear; its value is Target::name.
inline constexpr const char* kInstallationLabel = "driftgate/installation";

/// The fence of an HTTPRoute: which route it was made of.
struct Fence {
  std::uint64_t epoch = 0;
  std::uint64_t revision = 0;
  auto operator<=>(const Fence&) const = default;
};
[[nodiscard]] Fence fence_of(const ModelRoute& route);
[[nodiscard]] std::string to_string(const Fence& fence);  ///< "12.3"

/// The name of a model's HTTPRoute: letters of the model, and a hash, since names of models have more of
/// them.
[[nodiscard]] std::string object_name(const Target& target, const std::string& model);

/// `unsupported` for a route that cannot be written: a model's name that no header could carry.
[[nodiscard]] schema::Result<void> check_route(const ModelRoute& route);

/// The HTTPRoute of a route, with every member that an API server would fill in. Requests that name the model
/// in the header `driftgate-model` go by its weights; all others are for the HTTPRoute that sends them to the
/// router.
///
/// With a candidate everything passes the router. Without one the watched share does, and the rest goes
/// straight to the engine that serves. Where slices go to the fallback, so do requests whose header
/// `driftgate-slice` says just that; what a Gateway cannot be certain of passes the router. So does
/// everything for an engine that asks for a key (`access`).
[[nodiscard]] nlohmann::json http_route(const Target& target, const ModelRoute& route,
                                        const AccessByUrl& access = {});

/// The fence of an HTTPRoute that an API server gave; {0, 0}, which is older than any other, where it bears
/// none. `corrupt` for one that cannot be read.
[[nodiscard]] schema::Result<Fence> fence_in(const nlohmann::json& object);

/// Whether `held` says all that `wanted` does: what else its objects have was filled in by the API server.
[[nodiscard]] bool covers(const nlohmann::json& held, const nlohmann::json& wanted);

/// Whether each Gateway of the target has accepted this generation of the HTTPRoute and found all that it
/// names. `deadline_exceeded` while one has not said so yet; `conflict` with its reason when it refuses.
[[nodiscard]] schema::Result<void> check_accepted(const nlohmann::json& object, const Target& target);

}  // namespace driftgate::route::gateway
