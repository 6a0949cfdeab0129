#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/net/message.hpp"
#include "daemon/net/sse.hpp"
#include "schema/error.hpp"

namespace driftgate::net {

/// The source of a stream of server-sent events. The server pulls: a slow client costs one connection
/// and no queue. `next` runs on the worker pool, never twice at the same time for one feed.
class EventFeed {
 public:
  static constexpr std::size_t kMaxBatch = 64;
  struct Batch {
    std::vector<SseEvent> events;  ///< at most kMaxBatch; a full batch is followed by another pull
    bool ended = false;            ///< nothing more will come: the stream is closed after these
    bool more = false;             ///< pull again at once, also when there are few events or none
  };
  virtual ~EventFeed() = default;
  /// What is new since the last call. Called after Server::wake_streams and at each heartbeat.
  virtual Batch next() = 0;
};

/// The source of a body whose length is not known when it begins: sent in chunks (RFC 9112 section 7.1) as
/// the client takes them, so that a large answer is never held as a whole. `next` runs on the worker pool,
/// never twice at the same time for one body.
class BodySource {
 public:
  virtual ~BodySource() = default;
  /// The next piece; empty when the body is complete. On an error the connection is cut, which the client
  /// sees: the last chunk is missing.
  virtual schema::Result<std::string> next() = 0;
};

class Deferred;

/// What a handler answers: a body; or a feed of events; or a deferred answer.
struct Response {
  int status = 200;
  Headers headers;  ///< Content-Length and Connection are the server's
  std::string body;
  std::shared_ptr<EventFeed> feed;
  std::shared_ptr<BodySource> source{};  ///< instead of `body`
  std::shared_ptr<Deferred> deferred;
  bool close = false;  ///< end the connection after this answer
};

/// An answer that waits for something without holding a thread (`Prefer: wait=`). `poll` runs on the
/// worker pool, at once, after each Server::wake_streams, and a last time with `last` when `wait` is over.
class Deferred {
 public:
  virtual ~Deferred() = default;
  virtual std::optional<Response> poll(bool last) = 0;
  [[nodiscard]] virtual std::chrono::milliseconds wait() const = 0;
};

/// An RFC 9457 problem (application/problem+json) with the members status, title, code, detail. With 503 it
/// asks to try again in a second.
[[nodiscard]] Response plain_problem(int status, std::string_view code, std::string_view detail);

/// Status line, Date, header fields and the empty line; Content-Length unless `response` is a feed or has a
/// source, which is sent in chunks.
[[nodiscard]] std::string format_response_head(const Response& response, bool keep_alive);
/// The whole answer when it is a body; the connection ends after it.
[[nodiscard]] std::string format_whole(const Response& response);

}  // namespace driftgate::net
