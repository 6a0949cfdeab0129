#include "daemon/cli/setup/as_owner.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace driftgate::cli {
namespace {

constexpr int kMostGroups = 1'024;

std::vector<gid_t> groups_of(uid_t user, gid_t group) {
  std::array<char, 16'384> text{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) return {group};
  int count = kMostGroups;
  std::vector<gid_t> groups(kMostGroups);
  if (::getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count) < 0) return {group};
  groups.resize(static_cast<std::size_t>(count));
  return groups;
}

}  // namespace

AsOwner::AsOwner(const std::filesystem::path& folder) : group_(::getegid()) {
  struct stat status {};
  if (::geteuid() != 0 || ::stat(folder.c_str(), &status) != 0 || status.st_uid == 0) return;
  const int count = ::getgroups(0, nullptr);
  groups_.resize(static_cast<std::size_t>(count < 0 ? 0 : count));
  if (count < 0 || ::getgroups(count, groups_.data()) != count) {
    failed_ = true;
    return;
  }
  changed_ = true;
  const auto groups = groups_of(status.st_uid, status.st_gid);
  failed_ = ::setgroups(groups.size(), groups.data()) != 0 || ::setegid(status.st_gid) != 0 ||
            ::seteuid(status.st_uid) != 0;
  if (failed_) restore();
}

AsOwner::~AsOwner() {
  restore();
}

void AsOwner::restore() {
  if (!changed_) return;
  changed_ = false;
  // Going on as somebody else would make files that are not root's.
  if ((::geteuid() != 0 && ::seteuid(0) != 0) || ::setegid(group_) != 0) std::abort();
  if (::setgroups(groups_.size(), groups_.data()) != 0 && !failed_) std::abort();
}

bool may_use(const std::filesystem::path& path, int mode) {
  return ::faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

}  // namespace driftgate::cli
