#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "daemon/route/control/driver.hpp"
#include "daemon/route/health/engine.hpp"
#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

// The codec of the control socket and of the state file. Reading refuses unknown keys, wrong types and
// numbers out of range with a JSON pointer in `where`; it does not judge a route (validate_route does).

[[nodiscard]] nlohmann::json to_json(const ModelRoute& route);
[[nodiscard]] schema::Result<ModelRoute> route_from_json(const nlohmann::json& json);

[[nodiscard]] nlohmann::json to_json(const ObservedRoute& observed);
[[nodiscard]] schema::Result<ObservedRoute> observed_from_json(const nlohmann::json& json);

/// A list of {"url", "key_file", "key_header", "ca_file"}: paths, and no key.
[[nodiscard]] nlohmann::json to_json(const AccessByUrl& access);
[[nodiscard]] schema::Result<AccessByUrl> access_from_json(const nlohmann::json& json);

[[nodiscard]] nlohmann::json to_json(const Capabilities& capabilities);
[[nodiscard]] nlohmann::json to_json(const schema::Error& error);
/// The error of a reply; its code by name, `internal` for a name that this build does not know.
[[nodiscard]] schema::Error error_from_json(const nlohmann::json& json);

/// On one line; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string dumped(const nlohmann::json& json);

/// Bounded parse: depth at most 32, no exceptions.
[[nodiscard]] schema::Result<nlohmann::json> parse_json(std::string_view text);

}  // namespace driftgate::route
