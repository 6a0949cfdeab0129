#pragma once

#include <filesystem>
#include <string>

#include "schema/error.hpp"

namespace driftgate::store {

/// Copies the database in `data_dir`, as it is at this moment, into the new file `target` (mode 0600, synced,
/// its folder too) by VACUUM INTO, on a connection of its own: readers and the writer go on. The WAL grows
/// until it is done. `already_exists` when the file exists, `storage_full`, `io`; no part of the copy is left
/// after an error.
[[nodiscard]] schema::Result<void> copy_database(const std::filesystem::path& data_dir,
                                                 const std::filesystem::path& target,
                                                 const std::string& vfs = {});

/// Runs SQLite's integrity_check on a database file that is not open elsewhere. `corrupt` with the first
/// fault.
[[nodiscard]] schema::Result<void> check_database(const std::filesystem::path& file);

/// Copies a file, which must not change meanwhile, into a new one (0600, synced).
[[nodiscard]] schema::Result<void> copy_file_durably(const std::filesystem::path& from,
                                                     const std::filesystem::path& to);

}  // namespace driftgate::store
