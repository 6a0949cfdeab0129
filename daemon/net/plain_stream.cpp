#include <boost/asio/write.hpp>
#include <utility>

#include "daemon/net/stream.hpp"

namespace driftgate::net {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(TcpSocket socket) : socket_(std::move(socket)) {}

  Awaitable<bool> open() override { co_return true; }

  Awaitable<std::optional<std::size_t>> read_some(asio::mutable_buffer into) override {
    auto [error, size] = co_await socket_.async_read_some(into, kAwait);
    std::optional<std::size_t> read;
    if (!error) read = size;
    co_return read;
  }

  Awaitable<bool> write(const std::array<asio::const_buffer, 2>& bytes) override {
    auto [error, size] = co_await asio::async_write(socket_, bytes, kAwait);
    co_return !error;
  }

  Awaitable<void> end_writing() override {
    boost::system::error_code ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    co_return;
  }

  TcpSocket& socket() override { return socket_; }

  void write_now(std::string_view bytes) override {
    boost::system::error_code ignored;
    socket_.non_blocking(true, ignored);
    socket_.write_some(asio::buffer(bytes), ignored);
  }

 private:
  TcpSocket socket_;
};

}  // namespace

std::unique_ptr<Stream> plain_stream(TcpSocket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace driftgate::net
