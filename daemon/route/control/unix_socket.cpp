#include "daemon/route/control/unix_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/route/control/frame.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr int kBacklog = 16;
constexpr std::size_t kMaxDescriptors = 16;
constexpr std::size_t kReadBytes = 4'096;

/// Room for the control message of SCM_RIGHTS, aligned as its head.
union Rights {
  cmsghdr head;
  std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> bytes;
};

msghdr message_of(iovec& data, Rights& rights, std::size_t rights_bytes) {
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = &rights;
  message.msg_controllen = rights_bytes;
  return message;
}

std::unexpected<schema::Error> failed(schema::ErrorCode code, std::string_view what,
                                      const std::string& path) {
  return schema::failf(code, "control socket: cannot {} {}: {}", what, path, std::strerror(errno));
}

schema::Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return schema::failf(schema::ErrorCode::invalid_argument,
                         "control socket: path '{}' must have 1 to {} bytes; choose a shorter folder", path,
                         sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

base::UniqueFd unix_stream() {
  return base::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

schema::Result<base::UniqueFd> lock_file(const std::string& path) {
  base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) return failed(schema::ErrorCode::io, "open the lock", path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return failed(schema::ErrorCode::io, "lock", path);
  return schema::failf(schema::ErrorCode::conflict,
                       "another router holds {}; stop it or choose another control socket", path);
}

schema::Result<base::UniqueFd> listen_unix(const std::string& path) {
  const auto address = TRY(address_of(path));
  base::UniqueFd socket = unix_stream();
  if (!socket) return failed(schema::ErrorCode::io, "make", path);
  struct stat there {};
  if (::lstat(path.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
    return schema::failf(schema::ErrorCode::already_exists,
                         "control socket: {} exists and is not a socket; move it away", path);
  ::unlink(path.c_str());
  // fchmod before bind gives the file its mode at birth: no moment in which others could connect.
  if (::fchmod(socket.get(), 0600) != 0) return failed(schema::ErrorCode::io, "set the mode of", path);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failed(schema::ErrorCode::io, "bind", path);
  }
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return failed(schema::ErrorCode::io, "listen on", path);
  }
  return socket;
}

schema::Result<base::UniqueFd> connect_unix(const std::string& path) {
  const auto address = TRY(address_of(path));
  base::UniqueFd socket = unix_stream();
  if (!socket) return failed(schema::ErrorCode::io, "make", path);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failed(schema::ErrorCode::unavailable, "connect to", path);
  }
  return socket;
}

schema::Result<void> send_descriptors(int fd, std::string_view bytes,
                                      const std::vector<base::UniqueFd>& descriptors) {
  std::array<int, kMaxDescriptors> numbers{};
  const auto count = std::min(descriptors.size(), numbers.size());
  for (std::size_t i = 0; i < count; ++i) numbers[i] = descriptors[i].get();
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  Rights rights{};
  const auto message = message_of(data, rights, CMSG_SPACE(count * sizeof(int)));
  auto* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(head), numbers.data(), count * sizeof(int));
  const auto sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return {};
  return schema::failf(schema::ErrorCode::unavailable, "control socket: sending descriptors failed: {}",
                       std::strerror(errno));
}

schema::Result<std::vector<base::UniqueFd>> receive_descriptors(
    int fd, std::string& buffer, std::chrono::steady_clock::time_point deadline, std::size_t most) {
  TRY(wait_for(fd, POLLIN, deadline));
  std::array<char, kReadBytes> bytes;
  iovec data{bytes.data(), std::min(bytes.size(), most)};
  Rights rights{};
  auto message = message_of(data, rights, sizeof rights);
  const auto got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (got <= 0)
    return schema::failf(schema::ErrorCode::unavailable, "control socket: no response: {}",
                         got == 0 ? "the peer closed the connection" : std::strerror(errno));
  buffer.append(bytes.data(), static_cast<std::size_t>(got));
  std::vector<base::UniqueFd> received;
  for (auto* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const auto count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(head) + i * sizeof(int), sizeof number);
      received.emplace_back(number);
    }
  }
  return received;
}

schema::Result<int> peer_process(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0) return peer.pid;
  return schema::fail(schema::ErrorCode::unavailable, "control socket: the peer's process is unknown");
}

}  // namespace driftgate::route
