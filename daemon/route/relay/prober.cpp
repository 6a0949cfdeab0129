#include "daemon/route/relay/prober.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>

#include "daemon/route/relay/engine_pass.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kMaxAnswerBytes = 1u << 20;
constexpr int kNotFound = 404;
constexpr int kNotAllowed = 405;
constexpr int kNotImplemented = 501;

}  // namespace

bool is_well(int status) {
  return status == kNotImplemented || (status >= 200 && status < 500);
}

bool lacks_health(int status) {
  return status == kNotFound || status == kNotAllowed || status == kNotImplemented;
}

void Prober::tick(Deadlines::Time now) {
  if (core_.options.probe_ms == 0 || core_.draining || now < next_look_) return;
  next_look_ = now + kLook;
  pool_.prune(now);
  std::erase_if(probed_,
                [](const auto& item) { return item.second.engine.expired() && !item.second.asking; });
  for (auto& engine : core_.engines.engines()) {
    const auto [entry, added] = probed_.try_emplace(engine->url());
    auto& probed = entry->second;
    if (added) probed.due = now;
    probed.engine = engine;
    if (engine->is_troubled() && !probed.was_troubled && !probed.asking) {
      probed.due = now;  // it has failed since its probe was planned
      probed.was_troubled = true;
    }
    if (probed.asking || now < probed.due || asking_ >= kMaxProbes) continue;
    probed.asking = true;
    ++asking_;
    asio::co_spawn(pool_.io().get_executor(), probe(std::move(engine)), LogBug{"probing an engine"});
  }
}

/// Soon after a probe that was not answered, and while a breaker waits to let a request try.
std::chrono::milliseconds Prober::pause(const Engine& engine, bool answered, Deadlines::Time now) const {
  const auto usual = std::chrono::milliseconds(core_.options.probe_ms);
  const auto status = engine.status(now);
  if (status.state == BreakerState::open)
    return status.open_ms > kPatientAfterMs ? usual : std::min(kAgainOpen, usual);
  return answered ? usual : std::min(kAgain, usual);
}

Task<void> Prober::probe(std::shared_ptr<Engine> engine) {
  auto& probed = probed_.at(engine->url());
  int status = 0;
  const std::string_view first = probed.asks_models ? "/v1/models" : "/health";
  std::string why = co_await ask(*engine, first, status);
  if (why.empty() && !probed.asks_models && lacks_health(status)) {
    probed.asks_models = true;
    why = co_await ask(*engine, "/v1/models", status);
  }
  if (why.empty() && !is_well(status)) why = fmt::format("status_{}", status);
  const auto now = Deadlines::Time::clock::now();
  const bool answered = why.empty();
  engine->probed(answered, "probe_" + why, now);
  probed.due = now + pause(*engine, answered, now);
  probed.was_troubled = engine->is_troubled();
  probed.asking = false;
  --asking_;
}

/// The status of the answer, or why there is none. An engine that has failed must be quick to be believed.
Task<std::string> Prober::ask(const Engine& engine, std::string_view path, int& status) {
  const auto full = std::chrono::milliseconds(core_.options.probe_timeout_ms);
  const auto limit = engine.is_troubled() ? std::max(full / 3, Deadlines::kTick) : full;
  const ExchangeLimits limits{Deadlines::Time::clock::now() + limit, limit};
  const auto& at = engine.endpoint();
  const auto key = at.pass ? at.pass->state()->key_line : std::string();
  const auto head =
      fmt::format("GET {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: driftgate\r\n{}Via: 1.1 {}\r\n\r\n",
                  at.prefix, path, at.host_field(), key, core_.mark);
  const std::string_view no_body;
  Exchange exchange(pool_, deadlines_, at, limits);
  std::string why = co_await exchange.start(head, no_body);
  if (!why.empty()) co_return why;
  status = exchange.head().status;
  // To its end, so that the connection can be used again.
  for (std::size_t read = 0; read <= kMaxAnswerBytes;) {
    Exchange::Part part = co_await exchange.next();
    read += part.data.size();
    if (part.end || !part.reason.empty()) co_return part.reason;
  }
  co_return std::string();
}

}  // namespace driftgate::route
