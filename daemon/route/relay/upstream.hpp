#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/route/asio_types.hpp"
#include "daemon/route/http/chunked.hpp"
#include "daemon/route/http/http_head.hpp"
#include "daemon/route/relay/deadlines.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/route/relay/first_byte_wait.hpp"
#include "daemon/route/relay/upstream_tls.hpp"
#include "daemon/route/relay/wire.hpp"

namespace driftgate::route {

/// A connection to an engine. Its bytes go through these functions alone.
struct UpstreamConnection {
  explicit UpstreamConnection(asio::io_context& io) : socket(io.get_executor()) {}

  [[nodiscard]] Sent send(Pieces& pieces) { return tls ? tls->send(pieces) : send_now(socket, pieces); }
  /// What send() left; false when the engine does not take it.
  Task<bool> send_rest(Pieces pieces);
  /// Takes what has come into `received`.
  [[nodiscard]] Arrival receive();

  TcpSocket socket;
  std::unique_ptr<UpstreamTls> tls;  ///< over the socket; null for http
  std::string authority;
  std::string received;  ///< bytes read and not yet used
  bool reused = false;
  Deadlines::Time idle_since;
};

/// Idle keep-alive connections to engines. One thread.
class UpstreamPool {
 public:
  static constexpr std::size_t kMaxIdlePerEngine = 128;
  static constexpr std::size_t kMaxEngines = 1'024;
  static constexpr std::chrono::seconds kMaxIdle{30};

  UpstreamPool(asio::io_context& io, std::chrono::milliseconds connect_time)
      : io_(io), connect_time_(connect_time) {}

  /// The idle connection used last that is still open, or null.
  std::unique_ptr<UpstreamConnection> take(const std::string& authority);
  void give_back(std::unique_ptr<UpstreamConnection> connection, Deadlines::Time now);
  /// Closes all idle connections.
  void clear() { idle_.clear(); }
  /// Closes what has been idle for too long.
  void prune(Deadlines::Time now);

  [[nodiscard]] asio::io_context& io() { return io_; }
  [[nodiscard]] std::chrono::milliseconds connect_time() const { return connect_time_; }

 private:
  asio::io_context& io_;
  const std::chrono::milliseconds connect_time_;
  std::map<std::string, std::vector<std::unique_ptr<UpstreamConnection>>> idle_;
};

/// How long an exchange may take.
struct ExchangeLimits {
  Deadlines::Time total;              ///< until the answer is whole, or is passed on
  std::chrono::milliseconds between;  ///< between two parts of an answer that is passed on
};

/// One request to an engine and its answer. Failures are short reasons, as telemetry names them: connect,
/// tls (no handshake, or a certificate that is not trusted), credentials (the engine's key file or CA file
/// cannot be read), no_answer, bad_head, truncated_answer; timeout (past the total limit), first_byte (late,
/// so that another engine is to be asked), breaker_open (the same since the engine's breaker opened), stalled
/// (past the limit between two parts); an empty reason is success.
class Exchange {
 public:
  /// `engine` lives as long as the exchange. `wait` is told what becomes of the first byte; null for a
  /// request that says nothing of the engine's health.
  Exchange(UpstreamPool& pool, Deadlines& deadlines, const Endpoint& engine, const ExchangeLimits& limits,
           FirstByteWait* wait = nullptr);

  /// Sends the request and reads the head of the answer. A kept connection that the engine closed in
  /// the meantime is replaced once by a fresh one.
  Task<std::string> start(std::string_view head, std::string_view body);
  [[nodiscard]] const ResponseHead& head() const { return head_; }

  struct Part {
    std::string data;
    bool end = false;
    std::string reason;
  };
  /// The next bytes of the body, without their framing. The last part has `end` or a reason, maybe both
  /// with data; do not ask for more after it.
  Task<Part> next();
  /// The same where something has come already; false when it has not.
  [[nodiscard]] bool next_now(Part& part);
  /// What has come can be passed on, so that the wait for the first byte is over. From here on only the time
  /// between two parts is limited, and no more the whole. Repeating it changes nothing.
  void pass_on();

  /// Cuts the exchange from outside: what is awaited ends with a failure.
  void abort();
  /// The breaker of some engine has opened: gives up when it is this one's and another engine can be asked.
  void follow_breaker();

 private:
  /// How far the head of the answer was looked for.
  struct HeadSearch {
    std::size_t scanned = 0;
    int interim = 0;  ///< answers before it
  };
  bool take_kept();
  Task<std::string> open();
  Task<std::string> connect();
  Task<std::string> secure();
  [[nodiscard]] bool fits(const UpstreamConnection& connection) const;
  std::string receive(const boost::system::error_code& failure);
  bool find_head(HeadSearch& search, std::string& why);
  void begin_body();
  bool take_body(Part& part);
  void hand_out(Part& part);
  void finish();
  void limit_to(Deadlines::Time end, std::string_view why);
  void set_alarm();
  void alarm();
  void cut(std::string_view why);
  void tell(std::string_view why);
  [[nodiscard]] std::string reason_or(std::string_view reason) const;

  UpstreamPool& pool_;
  const Deadlines& deadlines_;
  const Endpoint& engine_;
  const ExchangeLimits limits_;
  FirstByteWait* const wait_;
  Deadlines::Watch watch_;
  Deadlines::Time end_;       ///< of what is waited for now
  std::string_view end_why_;  ///< the reason when it is past
  std::string_view cut_why_;  ///< why the exchange was cut by a limit or a breaker; empty: it was not
  std::unique_ptr<UpstreamConnection> connection_;
  std::string head_bytes_;
  ResponseHead head_;
  std::optional<ChunkedDecoder> chunks_;
  std::uint64_t left_ = 0;
  bool until_close_ = false;
  bool ended_ = false;
  bool answered_ = false;  ///< a byte of the answer came
  bool passing_ = false;
  bool aborted_ = false;
};

}  // namespace driftgate::route
