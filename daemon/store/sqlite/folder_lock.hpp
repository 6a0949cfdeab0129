#pragma once

#include <filesystem>
#include <utility>

#include "daemon/base/unique_fd.hpp"
#include "schema/error.hpp"

namespace driftgate::store {

/// Holds `<folder>/driftgate.lock` by flock for as long as it lives, so that two daemons never share a
/// folder. The kernel gives the lock back when the process dies, however it dies. Move-only.
class FolderLock {
 public:
  /// `conflict` naming the process that holds it, `io` when the file cannot be opened.
  [[nodiscard]] static schema::Result<FolderLock> take(const std::filesystem::path& folder);

 private:
  explicit FolderLock(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::UniqueFd fd_;
};

}  // namespace driftgate::store
