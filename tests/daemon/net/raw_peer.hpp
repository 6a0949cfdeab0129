#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/net/server.hpp"
#include "daemon/net/socket.hpp"

namespace driftgate::net::test {

/// Sends bytes as they are and reads until the peer closes or `until` came, at most 10 s.
std::string exchange(std::uint16_t port, std::string_view bytes, std::string_view until = {});
/// An open connection on which `bytes` were sent.
Socket connect_and_send(std::uint16_t port, std::string_view bytes);
/// The same, and then the end of this side's bytes: what comes back can still be read.
Socket send_and_end(std::uint16_t port, std::string_view bytes);
/// Reads until the peer closes or `until` came, at most 10 s.
std::string read_until(Socket& socket, std::string_view until = {});

/// A server that answers every connection with the same bytes and closes it.
class CannedServer {
 public:
  explicit CannedServer(std::string answer);
  ~CannedServer();
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// A handler made of two functions.
class FunctionHandler : public Handler {
 public:
  std::function<std::optional<Response>(RequestHead&)> check;
  std::function<Response(const Request&)> answer;
  std::optional<Response> before_body(RequestHead& head) override {
    return check ? check(head) : std::nullopt;
  }
  Response handle(const Request& request) override { return answer ? answer(request) : Response{}; }
  /// By the beginning of the path: "/urgent", "/long".
  Lane lane_of(const RequestHead& head) override {
    if (head.path.starts_with("/urgent")) return Lane::urgent;
    return head.path.starts_with("/long") ? Lane::long_running : Lane::ordinary;
  }
};

/// A running server; without an `answer` it answers 200 and no body.
class TestServer {
 public:
  using Answer = std::function<Response(const Request&)>;
  using Check = std::function<std::optional<Response>(RequestHead&)>;
  explicit TestServer(Answer answer = {}, const ServerOptions& options = {}, Check check = {});
  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  Server* operator->() { return server_.get(); }

 private:
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;
};

}  // namespace driftgate::net::test
