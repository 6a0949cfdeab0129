#pragma once

#include <string>

#include "daemon/route/health/engine.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// Keeps durably which files the engines of the routes ask for, so that a router which starts without a
/// daemon finds their keys: paths alone, mode 0600.
[[nodiscard]] schema::Result<void> save_access(const std::string& path, const AccessByUrl& access);

/// What was kept; nothing when the file does not exist; `corrupt` when it cannot be what was written.
[[nodiscard]] schema::Result<AccessByUrl> load_access(const std::string& path);

}  // namespace driftgate::route
