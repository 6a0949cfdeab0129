#include "daemon/store/durable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace driftgate::store {

using schema::ErrorCode;
using schema::Result;

namespace {

Result<void> failed(std::string_view what, const std::string& path) {
  const int error = errno;
  ErrorCode code = ErrorCode::io;
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::storage_full;
  if (error == EEXIST) code = ErrorCode::already_exists;
  return schema::fail(code, fmt::format("cannot {} {}: {}", what, path, std::strerror(error)));
}

Result<void> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> write_temporary(const std::string& path, std::string_view bytes, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return failed("create", path);
  Result<void> done = ::fchmod(fd, mode) == 0 ? write_all(fd, bytes, path) : failed("set the mode of", path);
  if (done && ::fsync(fd) != 0) done = failed("sync", path);
  if (::close(fd) != 0 && done) done = failed("close", path);
  return done;
}

Result<void> sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed("open", folder);
  Result<void> done;
  if (::fsync(fd) != 0) done = failed("sync", folder);
  ::close(fd);
  return done;
}

}  // namespace

Result<void> write_file_durably(const std::filesystem::path& path, std::string_view bytes, mode_t mode,
                                IfPresent if_present) {
  const std::string target = path.string();
  const std::string temporary = target + ".tmp";
  auto done = write_temporary(temporary, bytes, mode);
  if (done && if_present == IfPresent::replace) {
    if (::rename(temporary.c_str(), target.c_str()) != 0) done = failed("replace", target);
  } else if (done) {
    if (::link(temporary.c_str(), target.c_str()) != 0) done = failed("create", target);
  }
  if (!done || if_present == IfPresent::refuse) ::unlink(temporary.c_str());
  if (!done) return done;
  const auto folder = path.parent_path();
  return sync_folder(folder.empty() ? "." : folder.string());
}

}  // namespace driftgate::store
