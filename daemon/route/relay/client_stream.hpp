#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/limits/connection_table.hpp"
#include "daemon/route/asio_types.hpp"
#include "daemon/route/http/chunked.hpp"
#include "daemon/route/http/http_head.hpp"
#include "daemon/route/relay/deadlines.hpp"
#include "daemon/route/relay/forward.hpp"
#include "daemon/route/relay/wire.hpp"
#include "daemon/route/worker/router_options.hpp"

namespace driftgate::route {

/// One request as read; `head` and `body` are views of what the stream received, or of the strings here, and
/// hold until the next request is read.
struct ClientRequest {
  ClientRequest() = default;
  ClientRequest(const ClientRequest&) = delete;
  ClientRequest& operator=(const ClientRequest&) = delete;
  RequestHead head;
  std::string_view body;
  // Of a request that did not come as a whole.
  std::string head_bytes;
  std::string body_bytes;
};

/// The client's side of a connection: requests are read under limits, writes that stall are cut, a
/// client that leaves is noticed while an engine works.
class ClientStream {
 public:
  using Place = limits::ConnectionTable::Place;
  ClientStream(TcpSocket socket, Deadlines& deadlines, const RouterOptions& options,
               std::unique_ptr<Place> place);

  enum class Read : std::uint8_t { request, closed, refused };
  /// The next request of the connection. After `refused` answer refusal() and close.
  Task<Read> read_request(ClientRequest& request);
  [[nodiscard]] const Refusal& refusal() const { return refusal_; }

  /// Writes the pieces as one, as far as the client takes them at once, and takes that off them; true when
  /// that is all. Otherwise call write with what is left.
  [[nodiscard]] bool write_now(Pieces& pieces);
  /// Writes the pieces as one; false, and gone() from then on, when the client does not take them.
  Task<bool> write(Pieces pieces);

  /// Calls `on_gone` when the client closes before the next request is read. `keeper` lives as long as
  /// the wait does.
  void watch(std::shared_ptr<void> keeper);
  void on_gone(std::function<void()> call) { on_gone_ = std::move(call); }

  [[nodiscard]] bool gone() const { return gone_; }
  /// Waits for a request of which nothing has come.
  [[nodiscard]] bool idle() const { return idle_; }
  [[nodiscard]] Place& place() { return *place_; }
  /// The table of connections needs this one's place: closes unless a request is worked on or answered.
  void evict();
  /// Lets the client read the last answer before the connection goes, within a bound.
  Task<void> linger();
  void close();

 private:
  void forget(ClientRequest& request);
  bool find_head(ClientRequest& request, std::size_t& scanned, Read& read);
  Read take_head(ClientRequest& request, std::size_t end);
  Task<Read> read_body(ClientRequest& request);
  Task<Read> read_chunked(ClientRequest& request);
  Task<bool> read_more(std::size_t most);
  bool receive(std::size_t most);
  Read refuse_for_memory(ClientRequest& request);
  void late();
  Read refuse(int status, std::string code, std::string message);
  void readable(const boost::system::error_code& failure, std::shared_ptr<void> keeper);

  TcpSocket socket_;
  const RouterOptions& options_;
  const std::unique_ptr<Place> place_;
  Deadlines::Watch watch_;
  std::function<void()> on_gone_;
  std::string received_;
  std::size_t used_ = 0;  ///< of these bytes are the request that is worked on
  bool whole_ = false;    ///< the request lies there from its first to its last byte
  Refusal refusal_;
  bool watching_ = false;
  bool serving_ = false;
  bool gone_ = false;
  bool idle_ = false;
  bool writing_ = false;
  std::size_t sent_ahead_ = 0;  ///< requests in a row that were here before they were asked for
  Deadlines::Time cut_at_;      ///< of a write that has stalled
};

}  // namespace driftgate::route
