#include "daemon/base/engine_access.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/ascii.hpp"
#include "daemon/base/http_text.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/base/unique_fd.hpp"
#include "schema/failf.hpp"

namespace driftgate::base {
namespace {

using schema::ErrorCode;

constexpr std::string_view kDefaultHeader = "Authorization";
constexpr std::size_t kMaxKeyFileBytes = 8u << 10;
constexpr std::size_t kMaxCaFileBytes = 4u << 20;
constexpr std::size_t kMaxHeaderBytes = 64;

/// Headers that say something else than who asks.
constexpr std::array<std::string_view, 17> kTaken{"accept",
                                                  "accept-encoding",
                                                  "connection",
                                                  "content-encoding",
                                                  "content-length",
                                                  "content-type",
                                                  "cookie",
                                                  "expect",
                                                  "host",
                                                  "keep-alive",
                                                  "te",
                                                  "trailer",
                                                  "transfer-encoding",
                                                  "upgrade",
                                                  "user-agent",
                                                  "via",
                                                  "proxy-connection"};

/// An open regular file.
struct OpenFile {
  UniqueFd fd{};
  mode_t mode = 0;
};

schema::Result<OpenFile> open_regular(const std::string& path, std::string_view what) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a FIFO must not block the open
  if (!fd) return schema::failf(ErrorCode::io, "cannot read the {} {}: {}", what, path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return schema::failf(ErrorCode::io, "the {} {} is not a regular file", what, path);
  return OpenFile{std::move(fd), status.st_mode};
}

schema::Result<std::string> read_key_text(const std::string& path) {
  const auto file = TRY(open_regular(path, "key file"));
  if ((file.mode & (S_IRWXG | S_IRWXO)) != 0)
    return schema::failf(ErrorCode::forbidden,
                         "the key file {} is open to others than its owner: chmod 600 it", path);
  auto text = TRY(read_all(file.fd.get(), path, kMaxKeyFileBytes));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  const auto visible = [](char c) { return c > ' ' && c < 0x7f; };
  if (text.empty() || !std::ranges::all_of(text, visible))
    return schema::failf(ErrorCode::invalid_document,
                         "the key file {} must hold one key and nothing else: one line of printable ASCII "
                         "without blanks",
                         path);
  return text;
}

/// `name` relative to `folder`; nothing when it is an absolute path that does not begin with it.
std::optional<std::string> relative_to(std::string_view folder, std::string_view name) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  if (!name.starts_with('/')) return std::string(name);
  if (!name.starts_with(folder) || name.size() <= folder.size() || name[folder.size()] != '/')
    return std::nullopt;
  name.remove_prefix(folder.size());
  while (name.starts_with('/')) name.remove_prefix(1);
  return std::string(name);
}

bool goes_up(std::string_view path) {
  while (!path.empty()) {
    const auto end = std::min(path.find('/'), path.size());
    if (path.substr(0, end) == "..") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

}  // namespace

schema::Result<std::optional<KeyField>> read_key(const EngineAccess& access) {
  if (access.key_file.empty()) return std::optional<KeyField>();
  auto key = TRY(read_key_text(access.key_file));
  const bool bearer = access.key_header.empty() || equal_ignoring_case(access.key_header, kDefaultHeader);
  return std::optional(KeyField{bearer ? std::string(kDefaultHeader) : access.key_header,
                                bearer ? "Bearer " + key : std::move(key)});
}

schema::Result<std::string> read_ca_file(const std::string& path) {
  const auto file = TRY(open_regular(path, "CA file"));
  return read_all(file.fd.get(), path, kMaxCaFileBytes);
}

schema::Result<void> check_key_header(std::string_view name) {
  const auto plain = [](char c) { return is_alphanumeric(c, "-"); };
  const auto same = [name](std::string_view taken) { return equal_ignoring_case(name, taken); };
  const bool own = name.size() >= 10 && equal_ignoring_case(name.substr(0, 10), "driftgate-");
  if (name.empty() || name.size() > kMaxHeaderBytes || !std::ranges::all_of(name, plain) ||
      std::ranges::any_of(kTaken, same) || own)
    return schema::failf(ErrorCode::invalid_argument,
                         "'{}' cannot be the header of a key: name one such as X-Api-Key, of at most {} "
                         "letters, digits and '-'",
                         name, kMaxHeaderBytes);
  return {};
}

schema::Result<std::string> file_below(const std::string& folder, const std::string& name) {
  const auto relative = relative_to(folder, name);
  const auto outside = [&] {
    return schema::failf(ErrorCode::forbidden,
                         "{} is not below {}: put the file there, or set engines.files_dir to its folder",
                         name, folder);
  };
  if (!relative || relative->empty() || goes_up(*relative) || relative->find('\0') != std::string::npos)
    return outside();
  const UniqueFd root(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root)
    return schema::failf(ErrorCode::not_found, "the folder {} (engines.files_dir) cannot be opened: {}",
                         folder, std::strerror(errno));
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const UniqueFd found(
      static_cast<int>(::syscall(SYS_openat2, root.get(), relative->c_str(), &how, sizeof how)));
  if (found) return folder + (folder.ends_with('/') ? "" : "/") + *relative;
  if (errno == EXDEV || errno == ELOOP) return outside();
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG)
    return schema::failf(ErrorCode::not_found, "{} does not exist below {}", name, folder);
  return schema::failf(ErrorCode::io, "cannot open {}: {}", name, std::strerror(errno));
}

}  // namespace driftgate::base
