#pragma once

#include <string>
#include <vector>

#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

inline constexpr std::size_t kMaxStateBytes = 64u << 20;

/// Keeps the routes durably: written beside `path`, fsync, rename, fsync of the folder; mode 0600.
[[nodiscard]] schema::Result<void> save_state(const std::string& path, const std::vector<ModelRoute>& routes);

/// The routes kept; none when the file does not exist; `corrupt` when it cannot be what was written.
[[nodiscard]] schema::Result<std::vector<ModelRoute>> load_state(const std::string& path);

}  // namespace driftgate::route
