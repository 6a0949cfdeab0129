#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// An exclusive flock on `path`, close-on-exec and held as long as the descriptor; `conflict` when another
/// holds it.
[[nodiscard]] schema::Result<base::UniqueFd> lock_file(const std::string& path);

/// A listening Unix stream socket, mode 0600, non-blocking, close-on-exec, in place of an older socket at
/// `path`.
[[nodiscard]] schema::Result<base::UniqueFd> listen_unix(const std::string& path);

/// A connected one, non-blocking, close-on-exec; `unavailable` when nobody listens.
[[nodiscard]] schema::Result<base::UniqueFd> connect_unix(const std::string& path);

/// Sends bytes on a Unix socket with descriptors beside them (SCM_RIGHTS); the caller keeps its own. At most
/// 16, and the bytes few enough to be sent at once.
[[nodiscard]] schema::Result<void> send_descriptors(int fd, std::string_view bytes,
                                                    const std::vector<base::UniqueFd>& descriptors);
/// Waits for the next bytes, appends them to `buffer`, and gives the descriptors that came with them,
/// close-on-exec; maybe none. At most `bytes` are read.
[[nodiscard]] schema::Result<std::vector<base::UniqueFd>> receive_descriptors(
    int fd, std::string& buffer, std::chrono::steady_clock::time_point deadline, std::size_t bytes = 4'096);

/// The process id of the peer of a connected Unix socket.
[[nodiscard]] schema::Result<int> peer_process(int fd);

}  // namespace driftgate::route
