#include "daemon/route/worker/listeners.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "daemon/limits/connection_table.hpp"
#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/route/table/route_json.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

using TcpEndpoint = boost::asio::ip::tcp::endpoint;

schema::Result<TcpEndpoint> endpoint_of(const std::string& listen) {
  const auto at = TRY(parse_authority(listen));
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(at.host == "localhost" ? "127.0.0.1" : at.host, error);
  if (!error) return TcpEndpoint(address, at.port);
  return schema::failf(schema::ErrorCode::invalid_argument,
                       "cannot listen on '{}': give an IP address, for example 127.0.0.1", at.host);
}

/// The address that a socket is bound to; false when it is no listening TCP socket.
bool bound_to(int fd, TcpEndpoint& at) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return false;
  size = static_cast<socklen_t>(at.capacity());
  if (::getsockname(fd, at.data(), &size) != 0) return false;
  at.resize(size);
  return at.data()->sa_family == AF_INET || at.data()->sa_family == AF_INET6;
}

/// `share`: several sockets on one port, between which the kernel spreads connections.
schema::Result<base::UniqueFd> bind_one(const TcpEndpoint& at, bool share) {
  const auto failed = [&at] {
    return schema::failf(schema::ErrorCode::io, "cannot listen on {}:{}: {}", at.address().to_string(),
                         at.port(), std::strerror(errno));
  };
  base::UniqueFd socket(
      ::socket(at.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  const int yes = 1;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) return failed();
  if (share && ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0) return failed();
  const bool bound = ::bind(socket.get(), at.data(), static_cast<socklen_t>(at.size())) == 0;
  if (!bound || ::listen(socket.get(), limits::kListenBacklog) != 0) return failed();
  return socket;
}

}  // namespace

schema::Result<std::vector<base::UniqueFd>> bind_listeners(const std::string& listen, std::size_t count) {
  auto at = TRY(endpoint_of(listen));
  std::vector<base::UniqueFd> listeners;
  while (listeners.size() < count) {
    auto socket = TRY(bind_one(at, count > 1));
    listeners.push_back(std::move(socket));
    bound_to(listeners.front().get(), at);  // the port that the kernel picked
  }
  return listeners;
}

schema::Result<std::uint16_t> listening_port(int fd) {
  TcpEndpoint at;
  if (bound_to(fd, at)) return at.port();
  return schema::failf(schema::ErrorCode::invalid_argument, "descriptor {} is not a listening TCP socket",
                       fd);
}

bool serves(const std::vector<base::UniqueFd>& listeners, const std::string& listen) {
  const auto wanted = endpoint_of(listen);
  TcpEndpoint at;
  if (!wanted || listeners.empty() || !bound_to(listeners.front().get(), at)) return false;
  return at.address() == wanted->address() && (wanted->port() == 0 || wanted->port() == at.port());
}

schema::Result<std::vector<base::UniqueFd>> duplicates(const std::vector<base::UniqueFd>& listeners) {
  std::vector<base::UniqueFd> copies;
  for (const auto& listener : listeners) {
    copies.emplace_back(::fcntl(listener.get(), F_DUPFD_CLOEXEC, 0));
    if (copies.back()) continue;
    return schema::failf(schema::ErrorCode::io, "cannot duplicate a listening socket: {}",
                         std::strerror(errno));
  }
  return copies;
}

void HeldListeners::hold(std::vector<base::UniqueFd> listeners) {
  const std::lock_guard lock(mutex_);
  held_ = std::move(listeners);
}

void HeldListeners::clear() {
  const std::lock_guard lock(mutex_);
  held_.clear();
}

schema::Result<std::vector<base::UniqueFd>> HeldListeners::copies() const {
  const std::lock_guard lock(mutex_);
  if (!held_.empty()) return duplicates(held_);
  return schema::fail(schema::ErrorCode::conflict, "this router no longer listens");
}

schema::Result<std::vector<base::UniqueFd>> ask_for_listeners(
    const std::string& control_path, std::chrono::steady_clock::time_point deadline) {
  const auto connection = TRY(connect_unix(control_path));
  TRY(write_all(connection.get(), encode_frame(R"({"op":"listeners"})"), deadline));
  std::string buffer;
  auto listeners = TRY(receive_descriptors(connection.get(), buffer, deadline));
  const auto frame = TRY(read_frame(connection.get(), buffer, deadline));
  const auto reply = TRY(parse_json(frame));
  if (!reply.is_object() || !reply.value("ok", false))
    return std::unexpected(error_from_json(reply.value("error", nlohmann::json())));
  for (const auto& listener : listeners) TRY(listening_port(listener.get()));
  if (!listeners.empty()) return listeners;
  return schema::fail(schema::ErrorCode::internal, "the router sent no listening sockets");
}

}  // namespace driftgate::route
