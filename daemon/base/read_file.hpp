#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>

#include "schema/error.hpp"

namespace driftgate::base {

/// What is left to read of a descriptor; `path` is for messages. `limit_exceeded` above `limit` bytes, `io`.
[[nodiscard]] schema::Result<std::string> read_all(int fd, const std::filesystem::path& path,
                                                   std::size_t limit = std::numeric_limits<std::size_t>::max());

/// The first `most` bytes that are left to read of a descriptor, or all of them if there are fewer. `io`.
[[nodiscard]] schema::Result<std::string> read_head(int fd, const std::filesystem::path& path,
                                                    std::size_t most);

/// All bytes of a file. `io` when it cannot be opened or read.
[[nodiscard]] schema::Result<std::string> read_file(const std::filesystem::path& path);

}  // namespace driftgate::base
