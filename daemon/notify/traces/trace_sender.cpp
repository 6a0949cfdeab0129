#include "daemon/notify/traces/trace_sender.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <span>
#include <utility>

#include "daemon/evidence/log/query.hpp"
#include "daemon/net/http_client.hpp"
#include "schema/failf.hpp"
#include "schema/sha256.hpp"

namespace driftgate::notify {
namespace {

using schema::ErrorCode;
using std::chrono::milliseconds;

constexpr std::size_t kMaxAnswerBytes = 64 * 1024;
constexpr std::size_t kMaxEntries = 50'000;    // of one promotion, the first of them
constexpr std::size_t kMaxRemembered = 4'096;  // promotions of which is known what was sent
constexpr std::string_view kTrigger = "state_changed";

/// Errors of a request that no later attempt would be without.
bool is_final(const schema::Error& error) {
  return error.code == ErrorCode::invalid_argument || error.code == ErrorCode::forbidden;
}

template <typename Item>
std::vector<Item> newer_than(std::vector<Item> items, std::int64_t seq) {
  std::erase_if(items, [seq](const Item& item) { return item.seq <= seq; });
  return items;
}

}  // namespace

bool is_retryable(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::optional<milliseconds> parse_retry_after(std::string_view field, std::int64_t now_us) {
  constexpr std::int64_t kLongest_s = 86'400;
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), seconds);
  if (error == std::errc{} && end == field.data() + field.size() && seconds >= 0)
    return milliseconds(std::min(seconds, kLongest_s) * 1'000);
  std::tm date{};
  const std::string text(field);
  const char* const rest = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
  if (rest == nullptr || *rest != '\0') return std::nullopt;
  const auto wait = static_cast<std::int64_t>(::timegm(&date)) - now_us / 1'000'000;
  return milliseconds(std::clamp<std::int64_t>(wait, 0, kLongest_s) * 1'000);
}

schema::Result<void> check_traces(const TraceSettings& settings) {
  if (const auto url = net::parse_url(settings.endpoint); !url)
    return schema::wrap(url.error(), "setting 'otlp.endpoint' cannot be used");
  if (!settings.access.key_header.empty()) {
    if (auto header = base::check_key_header(settings.access.key_header); !header)
      return schema::wrap(header.error(), "setting 'otlp.key_header' cannot be used");
  }
  if (auto key = base::read_key(settings.access); !key)
    return schema::wrap(key.error(), "setting 'otlp.key_file' cannot be used");
  return {};
}

schema::Result<std::unique_ptr<TraceSender>> TraceSender::start(store::Store& store,
                                                                const TraceSettings& settings,
                                                                TraceOptions options) {
  TRY(check_traces(settings));
  auto url = TRY(net::parse_url(settings.endpoint));
  base::UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return schema::fail(ErrorCode::io, "cannot make an eventfd for the sender of traces");
  return std::unique_ptr<TraceSender>(
      new TraceSender(store, std::move(url), settings.access, std::move(options), std::move(stop)));
}

TraceSender::TraceSender(store::Store& store, net::Url url, base::EngineAccess access, TraceOptions options,
                         base::UniqueFd stop)
    : store_(store),
      url_(std::move(url)),
      access_(std::move(access)),
      options_(std::move(options)),
      stop_(std::move(stop)) {
  thread_ = std::thread([this] { serve(); });
}

TraceSender::~TraceSender() {
  stop();
}

void TraceSender::stop_soon() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ::eventfd_write(stop_.get(), 1);
  changed_.notify_all();
}

void TraceSender::stop() {
  stop_soon();
  if (thread_.joinable()) thread_.join();
}

/// A stage ends with a change of state, so that nothing else needs to be looked at.
void TraceSender::note(std::string_view kind, const std::string& promotion) {
  if (kind != kTrigger || promotion.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(waiting_, promotion) != waiting_.end()) return;
    if (waiting_.size() >= options_.max_waiting) {
      figures_.dropped += 1;
      return;
    }
    waiting_.push_back(promotion);
  }
  changed_.notify_all();
}

TraceFigures TraceSender::figures() const {
  const std::lock_guard lock(mutex_);
  auto figures = figures_;
  figures.waiting = waiting_.size();
  return figures;
}

/// The promotion that has waited for longest; nothing at the end.
std::optional<std::string> TraceSender::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
  if (stopping_) return std::nullopt;
  auto promotion = std::move(waiting_.front());
  waiting_.pop_front();
  return promotion;
}

void TraceSender::serve() {
  while (const auto promotion = next()) send(*promotion);
}

schema::Result<std::vector<schema::Entry>> TraceSender::entries_of(const std::string& promotion) {
  using schema::EvidenceKind;
  const evidence::EntryFilter filter{.promotion = promotion,
                                     .kinds = {EvidenceKind::promotion_requested, EvidenceKind::state_changed,
                                               EvidenceKind::verdict_reached}};
  return store_.read([&](store::Reader& reader) -> schema::Result<std::vector<schema::Entry>> {
    std::vector<schema::Entry> entries;
    TRY(evidence::each_entry(reader, filter,
                             [&](const evidence::StoredEntry& stored) -> schema::Result<bool> {
                               auto entry = TRY(schema::decode_entry(stored.bytes));
                               entries.push_back(std::move(entry));
                               return entries.size() < kMaxEntries;
                             }));
    return entries;
  });
}

/// What the log says of the promotion by now and was not sent before.
void TraceSender::send(const std::string& promotion) {
  const auto entries = entries_of(promotion);
  if (!entries) return drop(1, entries.error().describe());
  if (entries->empty()) return;
  auto& sent = sent_.try_emplace(promotion, -1).first->second;
  auto trace = trace_of(promotion, *entries);
  const auto spans = newer_than(std::move(trace.spans), sent);
  const auto events = newer_than(std::move(trace.events), sent);
  sent = entries->back().seq;
  for (std::size_t i = 0; i < spans.size(); i += options_.max_items) {
    const auto part = std::span(spans).subspan(i, std::min(options_.max_items, spans.size() - i));
    deliver("/v1/traces", otlp_traces(options_.resource, part), part.size(), &TraceFigures::spans);
  }
  for (std::size_t i = 0; i < events.size(); i += options_.max_items) {
    const auto part = std::span(events).subspan(i, std::min(options_.max_items, events.size() - i));
    deliver("/v1/logs", otlp_logs(options_.resource, part), part.size(), &TraceFigures::events);
  }
  // Ids begin with the time: the first are the oldest. What is forgotten would be sent again under its ids.
  if (sent_.size() > kMaxRemembered) sent_.erase(sent_.begin());
}

schema::Result<net::ClientResponse> TraceSender::attempt(const char* path, const std::string& body) {
  auto key = TRY(base::read_key(access_));
  net::ClientOptions client_options;
  client_options.total_timeout = options_.timeout;
  client_options.connect_timeout = options_.timeout;
  client_options.max_body_bytes = kMaxAnswerBytes;
  client_options.cancel = stop_.get();
  client_options.tls.ca = access_.ca_file;
  client_options.tls.ca_advice = "the setting otlp.ca_file names another CA";
  if (key) client_options.headers.push_back({std::move(key->name), std::move(key->value)});
  net::HttpClient client(url_, std::move(client_options));
  net::ClientRequest request;
  request.method = "POST";
  request.target = net::join_target(url_.target, path);
  request.headers = {{"Content-Type", "application/json"}, {"User-Agent", "driftgate"}};
  request.body = body;
  return client.send(request);
}

/// False when the sender stops meanwhile.
bool TraceSender::pause(milliseconds wait) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, wait, [this] { return stopping_; });
}

bool TraceSender::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void TraceSender::drop(std::size_t items, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    figures_.dropped += items;
  }
  options_.log("warning", fmt::format("{} spans or events of promotions are not sent to '{}': {}", items,
                                      url_.base(), why));
}

void TraceSender::deliver(const char* path, const std::string& body, std::size_t items,
                          std::uint64_t TraceFigures::*sent) {
  const auto began = std::chrono::steady_clock::now();
  // Up to a tenth more, so that daemons that were throttled together do not come back together.
  const auto jitter = schema::sha256(body)[0];
  auto backoff = options_.first_retry;
  for (;;) {
    if (is_stopping()) return drop(items, "the daemon stops");
    const auto answer = attempt(path, body);
    if (answer && answer->status >= 200 && answer->status < 300) {
      const auto rejected = std::min<std::uint64_t>(otlp_rejected(answer->body), items);
      {
        const std::lock_guard lock(mutex_);
        figures_.*sent += items - rejected;
      }
      if (rejected > 0) drop(rejected, "the collector took the others of the request");
      return;
    }
    const auto why = answer ? fmt::format("{} answered {}", path, answer->status) : answer.error().describe();
    const bool again = answer ? is_retryable(answer->status) : !is_final(answer.error());
    if (!again) return drop(items, why);
    auto wait = backoff + backoff / 10 * jitter / 255;
    if (answer) {
      const auto field = answer->header("retry-after");
      const auto asked = field ? parse_retry_after(*field, options_.now_us()) : std::nullopt;
      wait = std::max(wait, asked.value_or(wait));  // one that asks for no wait is still in trouble
    }
    if (std::chrono::steady_clock::now() + wait > began + options_.patience) return drop(items, why);
    if (!pause(wait)) return drop(items, "the daemon stops");
    backoff = std::min(2 * backoff, options_.longest_retry);
  }
}

}  // namespace driftgate::notify
