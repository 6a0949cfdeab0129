#pragma once

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace driftgate::net {

namespace asio = boost::asio;
/// The concrete executor: no type-erased any_io_executor on the way of each operation.
using Executor = asio::io_context::executor_type;
using TcpSocket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
template <typename T>
using Awaitable = asio::awaitable<T, Executor>;
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable_t<Executor>{});

/// One side of an accepted connection, plain or under TLS: what a session needs of it and no more, so that
/// only tls_server.cpp knows the TLS library. One read and one write at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Before the first byte of a request. False when the handshake failed: close it then.
  virtual Awaitable<bool> open() = 0;
  /// Bytes read, at least one; nothing at the end and after a failure.
  virtual Awaitable<std::optional<std::size_t>> read_some(asio::mutable_buffer into) = 0;
  /// All of both buffers. False when the connection is gone.
  virtual Awaitable<bool> write(const std::array<asio::const_buffer, 2>& bytes) = 0;
  /// Tells the peer that nothing more is coming.
  virtual Awaitable<void> end_writing() = 0;
  /// The raw socket, for what TLS does not change: its state, its executor, closing it.
  virtual TcpSocket& socket() = 0;
  /// Whether a client may end its side of the connection and still read an answer: not under TLS.
  [[nodiscard]] virtual bool outlives_one_end() const = 0;
  /// Sends what fits at once, without waiting. Does nothing under TLS.
  virtual void write_now(std::string_view bytes) = 0;
};

/// Reads and writes of a Stream over an Asio stream: a socket, or TLS on one.
template <typename Layer>
class LayerStream : public Stream {
 public:
  template <typename... Args>
  explicit LayerStream(Args&&... args) : layer_(std::forward<Args>(args)...) {}

  Awaitable<std::optional<std::size_t>> read_some(asio::mutable_buffer into) override {
    auto [error, size] = co_await layer_.async_read_some(into, kAwait);
    std::optional<std::size_t> read;
    if (!error) read = size;
    co_return read;
  }
  Awaitable<bool> write(const std::array<asio::const_buffer, 2>& bytes) override {
    auto [error, size] = co_await asio::async_write(layer_, bytes, kAwait);
    co_return !error;
  }

 protected:
  Layer layer_;
};

/// Sends what fits at once, without waiting.
void write_at_once(TcpSocket& socket, std::string_view bytes);

/// The connection as it is.
[[nodiscard]] std::unique_ptr<Stream> plain_stream(TcpSocket socket);

}  // namespace driftgate::net
