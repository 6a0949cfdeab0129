#include "daemon/route/control/frame.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/base/poll_until.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

std::unexpected<schema::Error> io_failure(std::string_view what) {
  return schema::failf(schema::ErrorCode::unavailable, "control socket: {}: {}", what, std::strerror(errno));
}

}  // namespace

std::string encode_frame(std::string_view body) {
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string frame;
  frame.reserve(kFrameHeadBytes + body.size());
  for (const unsigned shift : {24u, 16u, 8u, 0u}) frame.push_back(static_cast<char>((size >> shift) & 0xffu));
  frame.append(body);
  return frame;
}

schema::Result<std::optional<std::string>> take_frame(std::string& buffer) {
  if (buffer.size() < kFrameHeadBytes) return std::nullopt;
  std::size_t size = 0;
  for (std::size_t i = 0; i < kFrameHeadBytes; ++i)
    size = (size << 8) | static_cast<unsigned char>(buffer[i]);
  if (size > kMaxFrameBytes)
    return schema::failf(schema::ErrorCode::limit_exceeded,
                         "control socket: a frame of {} bytes exceeds the limit of {}", size, kMaxFrameBytes);
  if (buffer.size() < kFrameHeadBytes + size) return std::nullopt;
  std::string body = buffer.substr(kFrameHeadBytes, size);
  buffer.erase(0, kFrameHeadBytes + size);
  return body;
}

schema::Result<void> wait_for(int fd, short events, FrameDeadline deadline) {
  const int ready = base::poll_until(fd, events, deadline);
  if (ready > 0) return {};
  if (ready < 0) return io_failure("poll failed");
  return schema::fail(schema::ErrorCode::deadline_exceeded,
                      "control socket: no response within the deadline");
}

schema::Result<void> write_all(int fd, std::string_view bytes, FrameDeadline deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      TRY(wait_for(fd, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return io_failure("sending failed");
    }
  }
  return {};
}

schema::Result<std::string> read_frame(int fd, std::string& buffer, FrameDeadline deadline) {
  std::array<char, 65'536> bytes;
  for (;;) {
    auto frame = TRY(take_frame(buffer));
    if (frame) return std::move(*frame);
    const auto got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      buffer.append(bytes.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return schema::fail(schema::ErrorCode::unavailable, "control socket: the peer closed the connection");
    } else if (errno == EAGAIN) {
      TRY(wait_for(fd, POLLIN, deadline));
    } else if (errno != EINTR) {
      return io_failure("reading failed");
    }
  }
}

}  // namespace driftgate::route
