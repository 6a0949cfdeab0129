#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::base {

enum class IfPresent : std::uint8_t { replace, refuse };

/// Writes a whole file so that after a crash it is there with all its bytes or not at all: temporary file
/// beside it (`path`.tmp, made anew), fsync, rename (or link, which refuses an existing file with
/// `already_exists`), fsync of the folder. The file has exactly the mode given, whatever the umask. `io` or
/// `storage_full` with the path.
[[nodiscard]] schema::Result<void> write_file_durably(const std::filesystem::path& path,
                                                      std::string_view bytes, mode_t mode,
                                                      IfPresent if_present = IfPresent::replace);

/// The same without fsync: readers see the old file or the new one, whole, but a power cut may take the new
/// one away. For what is not worth waiting for a disk.
[[nodiscard]] schema::Result<void> replace_file(const std::filesystem::path& path, std::string_view bytes,
                                                mode_t mode);

/// Makes renames and new files in a folder survive a crash; an empty path is the current folder. `io`.
[[nodiscard]] schema::Result<void> sync_folder(const std::filesystem::path& folder);

/// Writes all bytes to a blocking descriptor; false, with errno set, when that fails.
[[nodiscard]] bool write_all(int fd, std::string_view bytes);

/// "cannot {what} {path}: " and the text of errno: `storage_full` where the disk or a quota is full,
/// `already_exists` for EEXIST, else `io`.
[[nodiscard]] std::unexpected<schema::Error> file_failure(std::string_view what,
                                                          const std::filesystem::path& path);

}  // namespace driftgate::base
