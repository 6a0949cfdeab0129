#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::route {

/// A frame of the control socket: 4 bytes of length, big-endian, then so many bytes of JSON.
inline constexpr std::size_t kMaxFrameBytes = 16u << 20;
inline constexpr std::size_t kFrameHeadBytes = 4;

/// `body` must be at most kMaxFrameBytes.
[[nodiscard]] std::string encode_frame(std::string_view body);

/// Takes the first whole frame off `buffer`; nothing while it is incomplete; `limit_exceeded` when
/// it announces too much.
[[nodiscard]] schema::Result<std::optional<std::string>> take_frame(std::string& buffer);

using FrameDeadline = std::chrono::steady_clock::time_point;

/// Waits until the socket is ready for `events` of poll(2); `deadline_exceeded` otherwise.
[[nodiscard]] schema::Result<void> wait_for(int fd, short events, FrameDeadline deadline);
/// Writes all of `bytes` to a non-blocking socket before the deadline.
[[nodiscard]] schema::Result<void> write_all(int fd, std::string_view bytes, FrameDeadline deadline);
/// Reads one frame from a non-blocking socket before the deadline; `buffer` keeps what follows it.
[[nodiscard]] schema::Result<std::string> read_frame(int fd, std::string& buffer, FrameDeadline deadline);

}  // namespace driftgate::route
