#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/base/engine_access.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/net/outgoing.hpp"
#include "daemon/net/url.hpp"
#include "daemon/notify/traces/otlp_json.hpp"
#include "daemon/notify/traces/promotion_trace.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::notify {

/// Where traces go, as the settings say.
struct TraceSettings {
  std::string endpoint{};       ///< URL without /v1/traces; empty: nowhere
  base::EngineAccess access{};  ///< the header with a key, and the CA
};

/// That a sender can be started with these settings: `invalid_argument` for a URL or a header that cannot be
/// used, errors of the file with the key.
[[nodiscard]] schema::Result<void> check_traces(const TraceSettings& settings);

struct TraceOptions {
  OtlpResource resource{};
  std::function<std::int64_t()> now_us{};  ///< wall clock
  std::function<void(std::string_view level, const std::string& text)> log{};
  std::chrono::milliseconds timeout{10'000};     ///< of one attempt, connect included
  std::chrono::milliseconds first_retry{1'000};  ///< twice as long after each attempt
  std::chrono::milliseconds longest_retry{60'000};
  std::chrono::milliseconds patience{600'000};  ///< with one request; then it is dropped
  std::size_t max_waiting = 1'024;              ///< promotions of which something is to be sent
  std::size_t max_items = 256;                  ///< spans or events in one request
};

/// What has become of spans and events since the start.
struct TraceFigures {
  std::uint64_t spans = 0, events = 0;  ///< that the collector took
  std::uint64_t dropped = 0;  ///< spans and events that it did not, and promotions beyond max_waiting
  std::uint64_t waiting = 0;  ///< promotions
};

/// Whether a collector that answered so may take the same request later (OTLP/HTTP: 429, 502, 503, 504).
[[nodiscard]] bool is_retryable(int status);
/// How long a collector asks to wait by a `Retry-After` in seconds or as a date; nothing for a field that is
/// neither.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view field,
                                                                         std::int64_t now_us);

/// Sends traces of promotions to an OpenTelemetry collector by OTLP/HTTP with JSON. Whoever notes a promotion
/// never waits: one thread reads the log, makes the trace and sends what is new of it, a request at a time.
/// What a collector does not take within `patience` is dropped and counted.
class TraceSender {
 public:
  /// Errors of check_traces.
  [[nodiscard]] static schema::Result<std::unique_ptr<TraceSender>> start(store::Store& store,
                                                                          const TraceSettings& settings,
                                                                          TraceOptions options);
  ~TraceSender();

  /// An entry of this kind about the promotion was committed. Any thread, returns at once.
  void note(std::string_view kind, const std::string& promotion);
  [[nodiscard]] TraceFigures figures() const;
  /// Breaks an attempt in flight off and sends nothing more; what waits is lost. Any thread, returns at once.
  void stop_soon();
  /// The same, and joins. Only the look-up of the collector's name is waited for, for as long as the
  /// resolver's limits let it last.
  void stop();

 private:
  TraceSender(store::Store& store, net::Url url, base::EngineAccess access, TraceOptions options,
              base::UniqueFd stop);
  void serve();
  std::optional<std::string> next();
  schema::Result<std::vector<schema::Entry>> entries_of(const std::string& promotion);
  void send(const std::string& promotion);
  void deliver(const char* path, const std::string& body, std::size_t items,
               std::uint64_t TraceFigures::*sent);
  schema::Result<net::ClientResponse> attempt(const char* path, const std::string& body);
  bool pause(std::chrono::milliseconds wait);
  [[nodiscard]] bool is_stopping() const;
  void drop(std::size_t items, const std::string& why);

  store::Store& store_;
  const net::Url url_;
  const base::EngineAccess access_;
  const TraceOptions options_;
  const base::UniqueFd stop_;                 ///< readable once the sender is to stop
  std::map<std::string, std::int64_t> sent_;  ///< by promotion: the newest entry that was dealt with
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  TraceFigures figures_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace driftgate::notify
