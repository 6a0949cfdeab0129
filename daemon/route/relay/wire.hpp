#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/route/asio_types.hpp"

namespace driftgate::route {

/// What is sent as one.
using Pieces = std::array<std::string_view, 4>;

enum class Sent : std::uint8_t { all, part, failed };

/// Sends what the socket takes at once, without an operation of the event loop, and takes it off the pieces.
/// A socket with room in its buffer, as it mostly has, takes all.
[[nodiscard]] Sent send_now(TcpSocket& socket, Pieces& pieces);

enum class Arrival : std::uint8_t {
  bytes,
  nothing,  ///< yet
  end,      ///< the other side sends no more
  failure,
};
struct Received {
  Arrival arrival = Arrival::nothing;
  std::string_view bytes;  ///< in memory that all sockets of the thread share: gone with the next receive_now
};
/// The most that one call gives.
inline constexpr std::size_t kMaxReceived = 64u << 10;

/// Takes what has come, at most `most` bytes, without waiting. A connection that waits for bytes so holds no
/// memory for them. Before a co_await, copy what is needed behind it.
[[nodiscard]] Received receive_now(TcpSocket& socket, std::size_t most = kMaxReceived);

/// Appends the bytes; an empty text takes the memory of one that the thread gave back, where there is one.
/// The allocator has to search for memory of this size, which costs more than the rest of what is done with
/// it.
void append(std::string& text, std::string_view bytes);
/// Gives the memory of a text back. Little is kept, and nothing of a large one.
void give_back(std::string&& text) noexcept;

/// The pieces for an operation of the event loop.
[[nodiscard]] std::array<asio::const_buffer, 4> buffers_of(const Pieces& pieces);

}  // namespace driftgate::route
