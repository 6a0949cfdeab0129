#include "daemon/net/stream.hpp"

namespace driftgate::net {
namespace {

class PlainStream final : public LayerStream<TcpSocket> {
 public:
  using LayerStream::LayerStream;

  Awaitable<bool> open() override { co_return true; }

  Awaitable<void> end_writing() override {
    boost::system::error_code ignored;
    layer_.shutdown(asio::socket_base::shutdown_send, ignored);
    co_return;
  }

  TcpSocket& socket() override { return layer_; }
  [[nodiscard]] bool outlives_one_end() const override { return true; }
  void write_now(std::string_view bytes) override { write_at_once(layer_, bytes); }
};

}  // namespace

void write_at_once(TcpSocket& socket, std::string_view bytes) {
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(bytes), ignored);
}

std::unique_ptr<Stream> plain_stream(TcpSocket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace driftgate::net
