#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace driftgate::cli {

/// While it lives, root is the user who owns a folder, with that user's groups: what is then made belongs to
/// them, and what they may not read is not read. Nothing changes for a user who is not root, for a folder of
/// root and for one that is not there. Of the whole process: one at a time.
class AsOwner {
 public:
  explicit AsOwner(const std::filesystem::path& folder);
  ~AsOwner();
  AsOwner(const AsOwner&) = delete;
  AsOwner& operator=(const AsOwner&) = delete;

  /// Root has not become the owner, which a container may forbid.
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void restore();

  bool changed_ = false, failed_ = false;
  gid_t group_ = 0;
  std::vector<gid_t> groups_;
};

/// access(2) as the effective user.
[[nodiscard]] bool may_use(const std::filesystem::path& path, int mode);

}  // namespace driftgate::cli
