#include "daemon/store/sqlite/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "schema/failf.hpp"

namespace driftgate::store {

using schema::ErrorCode;

schema::Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const std::string path = (folder / "driftgate.lock").string();
  base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    return schema::failf(ErrorCode::io, "cannot open the lock {}: {}", path, std::strerror(errno));
  }
  const int fd = file.get();
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    std::array<char, 24> holder{};
    const ssize_t size = ::pread(fd, holder.data(), holder.size(), 0);
    if (error != EWOULDBLOCK) {
      return schema::failf(ErrorCode::io, "cannot lock {}: {}", path, std::strerror(error));
    }
    const std::string pid(holder.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    return schema::failf(
        ErrorCode::conflict,
        "another driftgate (process {}) uses the data folder {}: stop it, or choose another folder",
        pid.empty() ? "unknown" : pid, folder.string());
  }
  const std::string pid = std::to_string(::getpid());
  // Only a hint for the message above: a failed write does no harm.
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(fd, pid.data(), pid.size(), 0);
  return FolderLock(std::move(file));
}

}  // namespace driftgate::store
