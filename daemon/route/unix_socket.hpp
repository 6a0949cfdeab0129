#pragma once

#include <string>

#include "schema/error.hpp"

namespace driftgate::route {

// Each returns a descriptor that the caller owns, close-on-exec.

/// An exclusive flock on `path`, held as long as the descriptor; `conflict` when another holds it.
[[nodiscard]] schema::Result<int> lock_file(const std::string& path);

/// A listening Unix stream socket, mode 0600, non-blocking, in place of an older socket at `path`.
[[nodiscard]] schema::Result<int> listen_unix(const std::string& path);

/// A connected one, non-blocking; `unavailable` when nobody listens.
[[nodiscard]] schema::Result<int> connect_unix(const std::string& path);

}  // namespace driftgate::route
