#include "daemon/base/read_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/unique_fd.hpp"

namespace driftgate::base {

schema::Result<std::string> read_all(int fd, const std::filesystem::path& path, std::size_t limit) {
  std::string bytes;
  char buffer[65'536];
  while (true) {
    const auto got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_failure("read", path);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(got));
    if (bytes.size() > limit)
      return schema::fail(schema::ErrorCode::limit_exceeded,
                          fmt::format("{} is larger than {} bytes", path.string(), limit));
  }
}

schema::Result<std::string> read_head(int fd, const std::filesystem::path& path, std::size_t most) {
  std::string bytes;
  char buffer[65'536];
  while (bytes.size() < most) {
    const auto got = ::read(fd, buffer, std::min(sizeof buffer, most - bytes.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_failure("read", path);
    if (got == 0) break;
    bytes.append(buffer, static_cast<std::size_t>(got));
  }
  return bytes;
}

schema::Result<std::string> read_file(const std::filesystem::path& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return file_failure("open", path);
  return read_all(file.get(), path);
}

}  // namespace driftgate::base
