#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <cstdint>
#include <string_view>

#include "daemon/route/asio_types.hpp"

namespace driftgate::route {

/// What is sent as one.
using Pieces = std::array<std::string_view, 4>;

enum class Sent : std::uint8_t { all, part, failed };

/// Sends what the socket takes at once, without an operation of the event loop, and takes it off the pieces. A
/// socket with room in its buffer, as it mostly has, takes all.
[[nodiscard]] Sent send_now(TcpSocket& socket, Pieces& pieces);

/// The pieces for an operation of the event loop.
[[nodiscard]] std::array<asio::const_buffer, 4> buffers_of(const Pieces& pieces);

}  // namespace driftgate::route
