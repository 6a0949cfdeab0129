#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/net/outgoing.hpp"
#include "daemon/net/url.hpp"
#include "daemon/notify/outbox.hpp"
#include "daemon/notify/signature.hpp"
#include "daemon/store/outbox.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::notify {

/// One endpoint as the settings name it.
struct EndpointSettings {
  std::string name, url, secret_file;
  std::vector<std::string> events;
};

/// An endpoint that can be sent to.
struct Endpoint {
  std::string name;
  std::string url_text;
  net::Url url;
  Secret secret;
};

/// Reads URLs and secrets and checks hosts and event patterns. Errors name the endpoint.
[[nodiscard]] schema::Result<std::vector<Endpoint>> load_endpoints(
    const std::vector<EndpointSettings>& settings, const net::OutgoingPolicy& policy);

/// Limits of delivery.
struct SenderOptions {
  net::OutgoingPolicy policy;
  std::function<std::int64_t()> now_us;  ///< wall clock
  std::function<void(std::string_view level, const std::string& text)> log;
  std::chrono::milliseconds timeout{10'000};     ///< of one attempt, connect included
  std::chrono::milliseconds first_retry{5'000};  ///< times four after each attempt
  std::chrono::milliseconds longest_retry{21'600'000};
  std::int64_t max_attempts = 10;  ///< then the message has failed; about a day
};

/// How long after its `attempts`-th failed attempt a message is tried again: grows fourfold to the longest,
/// plus up to a tenth that its id decides, so that endpoints are not asked in step.
[[nodiscard]] std::int64_t retry_after_us(const SenderOptions& options, std::int64_t attempts,
                                          std::string_view message);

/// Delivers the outbox: one thread for each endpoint, one request at a time, at least once. 2xx ends a
/// message; 410 disables the endpoint and drops what waits for it; anything else, redirects included, is
/// tried again with back-off. Every outcome is committed before the next message.
class Sender {
 public:
  [[nodiscard]] static schema::Result<std::unique_ptr<Sender>> start(store::Store& store,
                                                                     std::vector<Endpoint> endpoints,
                                                                     SenderOptions options);
  ~Sender();

  /// Something was committed that may be due. Any thread, never blocks.
  void wake();
  /// Lets attempts in flight end (at most their timeout) and joins.
  void stop();

 private:
  Sender(store::Store& store, std::vector<Endpoint> endpoints, SenderOptions options);
  void serve(const Endpoint& endpoint);
  std::int64_t wait_us(const Endpoint& endpoint);
  schema::Result<std::size_t> send_due(const Endpoint& endpoint);
  schema::Result<int> attempt(const Endpoint& endpoint, const store::OutboxRow& row);
  schema::Result<bool> record(const Endpoint& endpoint, const store::OutboxRow& row,
                              const schema::Result<int>& status);

  store::Store& store_;
  const std::vector<Endpoint> endpoints_;
  const SenderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t woken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace driftgate::notify
