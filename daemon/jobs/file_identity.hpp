#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::jobs {

/// Identifies a file as the one that was hashed: any write, rename or change of mode sets a new
/// ctime, which no program can set back.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  bool operator==(const FileIdentity&) const = default;

  [[nodiscard]] static FileIdentity of(const struct stat& status) {
    const auto ns = [](const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; };
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), ns(status.st_mtim),
            ns(status.st_ctim)};
  }
};

/// SHA-256 of files by their identity, so that a checkpoint of many gigabytes is read once. Safe from any
/// thread.
class HashCache {
 public:
  virtual ~HashCache() = default;
  /// 64 hex digits, or nothing.
  virtual std::optional<std::string> find(const FileIdentity& identity) = 0;
  virtual schema::Result<void> put(const std::vector<std::pair<FileIdentity, std::string>>& hashes) = 0;
};

}  // namespace driftgate::jobs
