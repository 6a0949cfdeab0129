#include "daemon/notify/sender.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/net/http_client.hpp"
#include "schema/failf.hpp"
#include "schema/sha256.hpp"

namespace driftgate::notify {
namespace {

using schema::ErrorCode;

constexpr std::int64_t kBatch = 16;         ///< messages read at once
constexpr std::int64_t kKeptEnded = 1'000;  ///< of one endpoint, for people to look at
constexpr std::int64_t kLongestWait_us = 60'000'000;
constexpr std::size_t kMaxAnswerBytes = 64 * 1024;  ///< nothing in it is used
constexpr int kGone = 410;

schema::Error named(const schema::Error& error, const std::string& endpoint) {
  return schema::Error{error.code, fmt::format("webhook '{}': {}", endpoint, error.message), error.where,
                       nullptr};
}

schema::Result<Endpoint> load_endpoint(const EndpointSettings& settings, const net::OutgoingPolicy& policy) {
  auto url = TRY(net::parse_url(settings.url));
  TRY(net::check_outgoing(url, policy));
  const auto unknown = std::ranges::find_if_not(settings.events, known_pattern);
  if (unknown != settings.events.end())
    return schema::failf(ErrorCode::invalid_argument, "no event matches '{}'; the events are: {}", *unknown,
                         fmt::join(event_types(), ", "));
  auto secret = TRY(load_secret(settings.secret_file));
  return Endpoint{settings.name, settings.url, std::move(url), std::move(secret)};
}

}  // namespace

schema::Result<std::vector<Endpoint>> load_endpoints(const std::vector<EndpointSettings>& settings,
                                                     const net::OutgoingPolicy& policy) {
  if (settings.size() > kMaxEndpoints)
    return schema::failf(ErrorCode::limit_exceeded, "{} webhooks are configured; at most {} are allowed",
                         settings.size(), kMaxEndpoints);
  std::vector<Endpoint> endpoints;
  for (const auto& item : settings) {
    auto endpoint = load_endpoint(item, policy);
    if (!endpoint) return std::unexpected(named(endpoint.error(), item.name));
    endpoints.push_back(std::move(*endpoint));
  }
  return endpoints;
}

std::int64_t retry_after_us(const SenderOptions& options, std::int64_t attempts, std::string_view message) {
  const auto longest = std::chrono::microseconds(options.longest_retry).count();
  auto wait = std::chrono::microseconds(options.first_retry).count();
  for (std::int64_t i = 1; i < attempts && wait < longest; ++i) wait *= 4;
  wait = std::min(wait, longest);
  const auto hash = schema::sha256(fmt::format("{}/{}", message, attempts));
  return wait + wait / 10 * hash[0] / 255;
}

Sender::Sender(store::Store& store, std::vector<Endpoint> endpoints, SenderOptions options)
    : store_(store), endpoints_(std::move(endpoints)), options_(std::move(options)) {
  for (const auto& endpoint : endpoints_) threads_.emplace_back([this, &endpoint] { serve(endpoint); });
}

Sender::~Sender() {
  stop();
}

void Sender::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++woken_;
  }
  changed_.notify_all();
}

void Sender::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

/// Sends what is due, then waits for a wake-up or the next due time.
void Sender::serve(const Endpoint& endpoint) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      seen = woken_;
    }
    const auto sent = send_due(endpoint);
    if (sent && *sent > 0) continue;
    if (!sent) options_.log("warning", named(sent.error(), endpoint.name).describe());
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::microseconds(wait_us(endpoint)),
                      [&] { return stopping_ || (sent && woken_ != seen); });
  }
}

std::int64_t Sender::wait_us(const Endpoint& endpoint) {
  const auto next =
      store_.read([&](store::Reader& reader) { return store::next_outbox(reader, endpoint.name); });
  if (!next || !*next) return kLongestWait_us;
  // What is due already could not be sent just now: it waits as long as a first retry.
  const auto least = std::chrono::microseconds(options_.first_retry).count();
  const auto wait = **next - options_.now_us();
  return std::clamp<std::int64_t>(wait > 0 ? wait : least, 1'000, kLongestWait_us);
}

/// How many messages were tried.
schema::Result<std::size_t> Sender::send_due(const Endpoint& endpoint) {
  const auto now = options_.now_us();
  auto due = TRY(store_.read([&](store::Reader& reader) -> schema::Result<std::vector<store::OutboxRow>> {
    auto known = TRY(store::find_webhook(reader, endpoint.name));
    if (known && known->disabled_us) return std::vector<store::OutboxRow>{};
    return store::due_outbox(reader, endpoint.name, now, kBatch);
  }));
  for (const auto& row : due) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return due.size();
    }
    auto recorded = TRY(record(endpoint, row, attempt(endpoint, row)));
    if (recorded) break;
  }
  return due.size();
}

/// The status, or why there is none.
schema::Result<int> Sender::attempt(const Endpoint& endpoint, const store::OutboxRow& row) {
  net::ClientOptions client_options;
  client_options.total_timeout = options_.timeout;
  client_options.connect_timeout = options_.timeout;
  client_options.max_body_bytes = kMaxAnswerBytes;
  net::HttpClient client(endpoint.url, net::with_policy(client_options, endpoint.url, options_.policy));
  const auto timestamp = options_.now_us() / 1'000'000;
  net::ClientRequest request;
  request.method = "POST";
  request.target = endpoint.url.target;
  request.headers = {{"Content-Type", "application/json"},
                     {"User-Agent", "driftgate"},
                     {"webhook-id", row.message},
                     {"webhook-timestamp", std::to_string(timestamp)},
                     {"webhook-signature", endpoint.secret.sign(row.message, timestamp, row.payload)}};
  request.body = row.payload;
  auto answer = TRY(client.send(request));
  return answer.status;
}

/// Commits what came of an attempt; true when the endpoint takes no more.
schema::Result<bool> Sender::record(const Endpoint& endpoint, const store::OutboxRow& row,
                                    const schema::Result<int>& status) {
  const auto now = options_.now_us();
  const bool delivered = status && *status >= 200 && *status < 300;
  const bool gone = status && *status == kGone;
  const auto attempts = row.attempts + 1;
  const bool given_up = attempts >= options_.max_attempts;
  const auto why = status ? fmt::format("answered {}", *status) : status.error().describe();
  TRY(store_.write("record webhook attempt", [&](store::Tx& tx) -> schema::Result<void> {
    if (gone) {
      TRY(store::disable_webhook(tx, endpoint.name, now, "it answered 410 Gone"));
      TRY(store::drop_outbox(tx, endpoint.name, 0, now, "the endpoint answered 410 Gone"));
      return {};
    }
    if (!delivered && !given_up)
      return store::retry_outbox(tx, row.id, now + retry_after_us(options_, attempts, row.message), why);
    TRY(store::end_outbox(tx, row.id, delivered ? store::OutboxEnd::delivered : store::OutboxEnd::failed, now,
                          delivered ? std::string_view() : std::string_view(why)));
    return store::prune_outbox(tx, endpoint.name, kKeptEnded);
  }));
  if (gone) {
    options_.log("warning",
                 fmt::format("webhook '{}' answered 410 Gone: it is disabled until its URL changes or "
                             "`driftgate webhook enable {}`",
                             endpoint.name, endpoint.name));
  } else if (!delivered) {
    options_.log("warning", fmt::format("webhook '{}': attempt {} of {} to deliver {} failed: {}",
                                        endpoint.name, attempts, options_.max_attempts, row.type, why));
  }
  return gone;
}

schema::Result<std::unique_ptr<Sender>> Sender::start(store::Store& store, std::vector<Endpoint> endpoints,
                                                      SenderOptions options) {
  TRY(store.write("note webhooks", [&](store::Tx& tx) -> schema::Result<void> {
    for (const auto& endpoint : endpoints) {
      TRY(store::ensure_webhook(tx, endpoint.name, endpoint.url_text));
    }
    return {};
  }));
  return std::unique_ptr<Sender>(new Sender(store, std::move(endpoints), std::move(options)));
}

}  // namespace driftgate::notify
