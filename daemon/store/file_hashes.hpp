#pragma once

#include <optional>
#include <string>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// The SHA-256 of a file. It is valid as long as device, inode, size and times stay the same.
struct FileHashRow {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  std::string sha256{};  ///< 64 hex digits
  std::int64_t hashed_us = 0;
  bool operator==(const FileHashRow&) const = default;
};

inline constexpr std::int64_t kMaxFileHashes = 100'000;  ///< kept; the oldest go first

/// Replaces an earlier hash of the same inode.
Result<void> put_file_hash(Tx& tx, const FileHashRow& row);
/// The stored row of the file with the device, inode, size and times of `identity`, or nothing.
Result<std::optional<FileHashRow>> find_file_hash(Reader& reader, const FileHashRow& identity);
/// Deletes the oldest beyond `keep`.
Result<std::int64_t> trim_file_hashes(Tx& tx, std::int64_t keep = kMaxFileHashes);

}  // namespace driftgate::store
