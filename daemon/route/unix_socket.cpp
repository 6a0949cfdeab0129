#include "daemon/route/unix_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/route/unique_fd.hpp"

namespace driftgate::route {
namespace {

constexpr int kBacklog = 16;

std::unexpected<schema::Error> failed(schema::ErrorCode code, std::string_view what,
                                      const std::string& path) {
  return schema::fail(code,
                      fmt::format("control socket: cannot {} {}: {}", what, path, std::strerror(errno)));
}

schema::Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("control socket: path '{}' must have 1 to {} bytes; choose a shorter folder", path,
                    sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd unix_stream() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

schema::Result<int> lock_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return failed(schema::ErrorCode::io, "open the lock", path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file.release();
  if (errno != EWOULDBLOCK) return failed(schema::ErrorCode::io, "lock", path);
  return schema::fail(schema::ErrorCode::conflict,
                      fmt::format("another router holds {}; stop it or choose another control socket", path));
}

schema::Result<int> listen_unix(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return std::unexpected(address.error());
  UniqueFd socket = unix_stream();
  if (!socket) return failed(schema::ErrorCode::io, "make", path);
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode)) {
    return schema::fail(schema::ErrorCode::already_exists,
                        fmt::format("control socket: {} is a file of another kind; move it away", path));
  }
  ::unlink(path.c_str());
  // fchmod before bind gives the file its mode at birth: no moment in which others could connect.
  if (::fchmod(socket.get(), 0600) != 0) return failed(schema::ErrorCode::io, "set the mode of", path);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return failed(schema::ErrorCode::io, "bind", path);
  }
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return failed(schema::ErrorCode::io, "listen on", path);
  }
  return socket.release();
}

schema::Result<int> connect_unix(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return std::unexpected(address.error());
  UniqueFd socket = unix_stream();
  if (!socket) return failed(schema::ErrorCode::io, "make", path);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return failed(schema::ErrorCode::unavailable, "connect to", path);
  }
  return socket.release();
}

}  // namespace driftgate::route
