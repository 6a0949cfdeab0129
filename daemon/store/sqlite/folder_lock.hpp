#pragma once

#include <filesystem>

#include "schema/error.hpp"

namespace driftgate::store {

/// Holds `<folder>/driftgate.lock` by flock for as long as it lives, so that two daemons never share a
/// folder. The kernel gives the lock back when the process dies, however it dies. Move-only.
class FolderLock {
 public:
  /// `conflict` naming the process that holds it, `io` when the file cannot be opened.
  [[nodiscard]] static schema::Result<FolderLock> take(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace driftgate::store
