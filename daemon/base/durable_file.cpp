#include "daemon/base/durable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "daemon/base/unique_fd.hpp"

namespace driftgate::base {

using schema::ErrorCode;
using schema::Result;

namespace {

enum class Sync : bool { no, yes };

/// A file that this call has made: one that was there already may be somebody else's, who could read what is
/// written into it.
Result<UniqueFd> make_file(const std::string& path, mode_t mode) {
  constexpr int kAttempts = 16;  // another writer of the same file may make one in between
  for (int i = 0; i < kAttempts; ++i) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return file_failure("create", path);
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (file) return file;
    if (errno != EEXIST) return file_failure("create", path);
  }
  return schema::fail(ErrorCode::io,
                      fmt::format("cannot create {}: somebody else makes it again and again", path));
}

Result<void> write_temporary(const std::string& path, std::string_view bytes, mode_t mode, Sync sync) {
  UniqueFd file = TRY(make_file(path, mode));
  if (::fchmod(file.get(), mode) != 0) return file_failure("set the mode of", path);
  if (!write_all(file.get(), bytes)) return file_failure("write", path);
  if (sync == Sync::yes && ::fsync(file.get()) != 0) return file_failure("sync", path);
  if (::close(file.release()) != 0) return file_failure("close", path);
  return {};
}

Result<void> put_in_place(const std::string& temporary, const std::string& target, IfPresent if_present) {
  const bool replace = if_present == IfPresent::replace;
  const int failed =
      replace ? ::rename(temporary.c_str(), target.c_str()) : ::link(temporary.c_str(), target.c_str());
  if (failed != 0) return file_failure(replace ? "replace" : "create", target);
  return {};
}

/// Leaves no temporary file behind, whatever happens.
Result<void> write_file(const std::string& target, std::string_view bytes, mode_t mode, IfPresent if_present,
                        Sync sync) {
  const std::string temporary = target + ".tmp";
  auto done = write_temporary(temporary, bytes, mode, sync);
  if (done) done = put_in_place(temporary, target, if_present);
  if (!done || if_present == IfPresent::refuse) ::unlink(temporary.c_str());
  return done;
}

}  // namespace

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::unexpected<schema::Error> file_failure(std::string_view what, const std::filesystem::path& path) {
  const int error = errno;
  ErrorCode code = ErrorCode::io;
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::storage_full;
  if (error == EEXIST) code = ErrorCode::already_exists;
  return schema::fail(code, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(error)));
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  const std::string path = folder.empty() ? "." : folder.string();
  const UniqueFd opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || ::fsync(opened.get()) != 0) return file_failure("sync", path);
  return {};
}

Result<void> write_file_durably(const std::filesystem::path& path, std::string_view bytes, mode_t mode,
                                IfPresent if_present) {
  TRY(write_file(path.string(), bytes, mode, if_present, Sync::yes));
  return sync_folder(path.parent_path());
}

Result<void> replace_file(const std::filesystem::path& path, std::string_view bytes, mode_t mode) {
  return write_file(path.string(), bytes, mode, IfPresent::replace, Sync::no);
}

}  // namespace driftgate::base
