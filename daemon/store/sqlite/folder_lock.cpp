#include "daemon/store/sqlite/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace driftgate::store {

using schema::ErrorCode;

schema::Result<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  const std::string path = (folder / "driftgate.lock").string();
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return schema::fail(ErrorCode::io,
                        fmt::format("cannot open the lock {}: {}", path, std::strerror(errno)));
  }
  FolderLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    std::array<char, 24> holder{};
    const ssize_t size = ::pread(fd, holder.data(), holder.size(), 0);
    if (error != EWOULDBLOCK) {
      return schema::fail(ErrorCode::io, fmt::format("cannot lock {}: {}", path, std::strerror(error)));
    }
    const std::string pid(holder.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    return schema::fail(
        ErrorCode::conflict,
        fmt::format("another driftgate (process {}) uses the data folder {}: stop it, or choose "
                    "another folder",
                    pid.empty() ? "unknown" : pid, folder.string()));
  }
  const std::string pid = std::to_string(::getpid());
  // Only a hint for the message above: a failed write does no harm.
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(fd, pid.data(), pid.size(), 0);
  return lock;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace driftgate::store
