#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/net/http_client.hpp"
#include "daemon/net/sse.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// What every command against the daemon takes.
struct ConnectionArgs {
  std::string url;            ///< --url, else DRIFTGATE_URL, else http://127.0.0.1:7433
  std::string token_file;     ///< --token-file, else DRIFTGATE_TOKEN, else ~/.config/driftgate/token
  bool json = false;          ///< --json
  std::string until{};        ///< --until of watch: also ends in this state of the promotion
  bool plain = false;         ///< --plain: lines for files and scripts also on a terminal
  net::TlsClientFiles tls{};  ///< --ca (else DRIFTGATE_CA), --cert, --key: for an https URL
};

/// What else is told of a stream that is followed.
struct StreamHooks {
  std::function<bool()> on_bytes{};  ///< something came, if only a heartbeat; false ends the following
  /// The connection broke and is tried again, unless this returns false.
  std::function<bool(const std::string& why)> on_cut{};
  int max_resumes = 20;  ///< attempts in a row without an event; those after the 20th come each 2 s
};

inline constexpr std::string_view kDefaultUrl = "http://127.0.0.1:7433";

/// The daemon's API for commands: adds the token, turns problems into errors that keep their code.
class Client {
 public:
  /// `unauthenticated` when no token is found, `io` when the token file cannot be read.
  static schema::Result<Client> open(const ConnectionArgs& args);

  [[nodiscard]] schema::Result<std::string> get(const std::string& target);
  [[nodiscard]] schema::Result<std::string> remove(const std::string& target);
  /// With an idempotency key unless it is empty.
  [[nodiscard]] schema::Result<std::string> post(const std::string& target, std::string body,
                                                 std::string_view idempotency_key = {},
                                                 std::string_view media_type = "application/json");

  /// Gives a body of any length to `on_bytes` as it comes; `io` when that returns false.
  [[nodiscard]] schema::Result<void> download(const std::string& target, const net::OnBody& on_bytes);
  /// Changes a resource: PUT, POST or DELETE with If-Match "revision", or without it where there is none yet.
  [[nodiscard]] schema::Result<std::string> change(const std::string& method, const std::string& target,
                                                   std::optional<std::int64_t> revision,
                                                   std::string body = {});

  /// Follows an event stream until its `end` event, until `on_event` or a hook returns false, or until an
  /// error that a retry cannot resolve. A connection that is interrupted, or was and is answered with 429,
  /// 502, 503 or 504, is resumed after the last id, at most `max_resumes` times in a row without an event.
  schema::Result<void> follow(const std::string& target,
                              const std::function<bool(const net::SseEvent&)>& on_event,
                              const StreamHooks& hooks = {});

  /// Sets how long it waits for each answer.
  void allow(std::chrono::milliseconds answer_time) { answer_time_ = answer_time; }

 private:
  Client(net::Url url, std::string token, net::TlsClientFiles tls)
      : url_(std::move(url)), token_(std::move(token)), tls_(std::move(tls)) {}
  /// Puts the daemon's path before that of the request, and adds the token.
  void address(net::ClientRequest& request) const;
  [[nodiscard]] schema::Result<std::string> exchange(net::ClientRequest request);
  [[nodiscard]] schema::Result<net::ClientResponse> stream(net::ClientRequest request,
                                                           std::chrono::milliseconds idle_timeout,
                                                           const net::OnBody& on_bytes);
  net::Url url_;
  std::string token_;
  net::TlsClientFiles tls_;
  std::chrono::milliseconds answer_time_{90'000};  ///< an engine's probe takes about 30 s at most
};

/// How long an answer may take that copies the whole log.
inline constexpr std::chrono::hours kLongAnswer{12};

/// 128 random bits in hex.
[[nodiscard]] std::string fresh_idempotency_key();

/// The whole of a file, at most `limit` bytes. `io`, `limit_exceeded`.
[[nodiscard]] schema::Result<std::string> read_file(const std::string& path, std::size_t limit = 1024 * 1024);

}  // namespace driftgate::cli
