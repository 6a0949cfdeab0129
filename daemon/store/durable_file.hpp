#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::store {

enum class IfPresent : std::uint8_t { replace, refuse };

/// Writes a whole file so that after a crash it is there with all its bytes or not at all: temporary file
/// beside it, fsync, rename (or link, which refuses an existing file with `already_exists`), fsync of the
/// folder. `io` or `storage_full` with the path.
[[nodiscard]] schema::Result<void> write_file_durably(const std::filesystem::path& path,
                                                      std::string_view bytes, mode_t mode,
                                                      IfPresent if_present);

}  // namespace driftgate::store
