#include "daemon/jobs/rooted_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "daemon/base/read_file.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

std::string_view without_scheme(std::string_view uri) {
  constexpr std::string_view kScheme = "file://";
  return uri.starts_with(kScheme) ? uri.substr(kScheme.size()) : uri;
}

/// `path` relative to `root`, or nothing when it does not start with it.
std::optional<std::string> relative_to(std::string_view path, std::string_view root) {
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (!path.starts_with('/')) return std::string(path);
  if (path == root) return std::string(".");
  if (!path.starts_with(root) || (root != "/" && path[root.size()] != '/')) return std::nullopt;
  auto rest = path.substr(root.size());
  while (rest.starts_with('/')) rest.remove_prefix(1);
  return rest.empty() ? std::string(".") : std::string(rest);
}

int open_beneath(int root, const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a FIFO must not block the open
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how));
}

std::string roots_text(const std::vector<std::string>& roots) {
  return roots.empty() ? "none is configured" : fmt::format("{}", fmt::join(roots, ", "));
}

}  // namespace

schema::Result<base::UniqueFd> open_below(std::string_view uri, const std::vector<std::string>& roots) {
  const auto path = without_scheme(uri);
  if (path.empty() || path.find('\0') != std::string_view::npos ||
      path.find("://") != std::string_view::npos) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("'{}' is not a path: give a path, or file:// and a path", uri));
  }
  bool below_some = false;
  int error = ENOENT;
  for (const auto& root : roots) {
    const auto relative = relative_to(path, root);
    if (!relative) continue;
    const base::UniqueFd root_fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_fd) continue;
    below_some = true;
    base::UniqueFd found(open_beneath(root_fd.get(), *relative));
    if (found) return found;
    if (errno != ENOENT) error = errno;
  }
  if (!below_some || error == EXDEV || error == ELOOP) {
    return schema::fail(
        ErrorCode::forbidden,
        fmt::format("{} is not below a configured root ({}), or leads through a symbolic link; move "
                    "it there, or add its folder to the setting 'roots' and restart the daemon",
                    path, roots_text(roots)));
  }
  if (error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("{} does not exist below {}", path, roots_text(roots)));
  }
  return schema::fail(ErrorCode::io, fmt::format("cannot open {}: {}", path, std::strerror(error)));
}

schema::Result<std::string> read_below(std::string_view uri, const std::vector<std::string>& roots,
                                       std::size_t limit) {
  auto opened = TRY(open_below(uri, roots));
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return schema::fail(ErrorCode::invalid_argument, fmt::format("{} is not a regular file", uri));
  return base::read_all(opened.get(), uri, limit);
}

schema::Result<std::string> resolve_below(std::string_view uri, const std::vector<std::string>& roots) {
  auto opened = TRY(open_below(uri, roots));
  std::array<char, 4096> target{};
  const auto link = fmt::format("/proc/self/fd/{}", opened.get());
  const auto length = ::readlink(link.c_str(), target.data(), target.size());
  if (length <= 0 || static_cast<std::size_t>(length) == target.size()) {
    return schema::fail(ErrorCode::io, fmt::format("cannot tell the path of {}", uri));
  }
  return std::string(target.data(), static_cast<std::size_t>(length));
}

}  // namespace driftgate::jobs
