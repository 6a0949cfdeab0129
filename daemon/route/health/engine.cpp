#include "daemon/route/health/engine.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/base/clock.hpp"
#include "daemon/route/relay/engine_pass.hpp"

namespace driftgate::route {
namespace {

std::uint64_t ms_between(Engine::Time from, Engine::Time to) {
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
  return passed > 0 ? static_cast<std::uint64_t>(passed) : 0;
}

}  // namespace

Engine::Engine(EngineBook& book, std::string url, Endpoint endpoint)
    : book_(book), url_(std::move(url)), endpoint_(std::move(endpoint)), breaker_(book.limits().breaker) {
  learn(false);
  learn(true);
}

/// Sets the limit of one kind of request from what is known by now.
void Engine::learn(bool streamed) {
  const auto& limits = book_.limits();
  const std::size_t kind = streamed ? 1 : 0;
  const auto learned =
      first_byte_limit_ms(estimates_[kind].p99_ms(), limits.first_byte_floor_ms, limits.total_ms);
  const auto limit = streamed && limits.first_byte_ms > 0 ? limits.first_byte_ms : learned;
  limit_ms_[kind].store(limit < limits.total_ms ? limit : 0, std::memory_order_relaxed);
}

/// Changes the breaker under the lock; its new state is seen by requests at once.
template <typename Change>
void Engine::update(std::string_view why, Time now, Change change) {
  const std::lock_guard lock(mutex_);
  const auto before = breaker_.state();
  if (!why.empty()) {
    why_ = why;
    if (first_failure_us_ == 0) first_failure_us_ = base::wall_clock_us();
  }
  change(breaker_);
  follow(before, now);
  if (troubled_.load(std::memory_order_relaxed)) return;
  why_.clear();
  first_failure_us_ = 0;
}

void Engine::follow(BreakerState before, Time now) {
  const auto after = breaker_.state();
  state_.store(after, std::memory_order_relaxed);
  troubled_.store(after != BreakerState::closed || breaker_.failures() > 0, std::memory_order_relaxed);
  const bool opens = before == BreakerState::closed && after != BreakerState::closed;
  const bool closes = before != BreakerState::closed && after == BreakerState::closed;
  if (!opens && !closes) return;
  BreakerEvent event;
  event.url = url_;
  event.opened = opens;
  event.reason = why_;
  event.failures = opens ? breaker_.failures() : 0;
  event.at_us = base::wall_clock_us();
  event.first_failure_us = first_failure_us_;
  event.open_ms = opens ? 0 : ms_between(breaker_.opened(), now);
  if (opens) {
    spdlog::warn("router: the breaker of {} is open: {} failures in a row, the last one {}", url_,
                 event.failures, why_);
    missed_ = {};  // what a hung engine never answered says nothing of its speed
  } else {
    spdlog::warn("router: the breaker of {} is closed again after {} ms", url_, event.open_ms);
  }
  book_.record(std::move(event));
}

Engine::Entry Engine::enter(Time now) {
  if (state() == BreakerState::closed) return Entry::go;
  Entry entry = Entry::withheld;
  update({}, now, [&](Breaker& breaker) {
    const bool closed = breaker.state() == BreakerState::closed;
    if (breaker.admits(now)) entry = closed ? Entry::go : Entry::trial;
  });
  return entry;
}

void Engine::succeed(Time now) {
  if (!is_troubled()) return;
  update({}, now, [&](Breaker& breaker) {
    for (const bool streamed : {false, true}) {
      const auto count = std::exchange(missed_[streamed ? 1 : 0], 0U);
      // It answers, so the answers that were given up were slow and not lost: at least as slow as the limit.
      if (count > 0) estimates_[streamed ? 1 : 0].add(first_byte_ms(streamed), count);
    }
    breaker.succeeded();
  });
}

void Engine::answered(bool streamed, std::chrono::nanoseconds took, Time now) {
  estimates_[streamed ? 1 : 0].add(std::chrono::duration<double, std::milli>(took).count());
  learn(streamed);
  succeed(now);
}

void Engine::refused(Time now) {
  succeed(now);
}

void Engine::failed(std::string_view why, Time now) {
  update(why, now, [&](Breaker& breaker) { breaker.failed(now); });
}

void Engine::missed(bool streamed, bool counts, Time now) {
  update("first_byte", now, [&](Breaker& breaker) {
    if (counts) ++missed_[streamed ? 1 : 0];
    breaker.failed(now);
  });
}

void Engine::probed(bool answered, std::string_view why, Time now) {
  if (answered && !is_troubled()) return;
  update(answered ? std::string_view() : why, now, [&](Breaker& breaker) { breaker.probed(answered, now); });
}

void Engine::gave_up() {
  const std::lock_guard lock(mutex_);
  breaker_.gave_up();
}

EngineStatus Engine::status(Time now) const {
  EngineStatus status;
  status.url = url_;
  status.first_byte_ms = first_byte_ms(true);
  status.answer_ms = first_byte_ms(false);
  status.in_flight = in_flight_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  status.state = breaker_.state();
  status.failures = breaker_.failures();
  status.reason = why_;
  status.first_failure_us = first_failure_us_;
  if (status.state != BreakerState::closed) status.open_ms = ms_between(breaker_.opened(), now);
  return status;
}

/// The engine as it is, if it asks for what is set. Under the lock.
std::shared_ptr<Engine> EngineBook::known(const std::string& url) const {
  const auto found = engines_.find(url);
  auto engine = found == engines_.end() ? nullptr : found->second.lock();
  if (engine == nullptr) return nullptr;
  const auto set = access_.find(url);
  const auto asked = set == access_.end() ? base::EngineAccess{} : set->second;
  const auto& pass = engine->endpoint().pass;
  return (pass ? pass->access() : base::EngineAccess{}) == asked ? engine : nullptr;
}

std::shared_ptr<Engine> EngineBook::get(const std::string& url) {
  auto endpoint = parse_engine_url(url);
  if (!endpoint) return nullptr;
  base::EngineAccess access;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(engines_, [](const auto& item) { return item.second.expired(); });
    if (auto engine = known(url)) return engine;
    const auto set = access_.find(url);
    if (set != access_.end()) access = set->second;
  }
  // Files are read without the lock.
  if (endpoint->tls || access.any()) {
    const bool tls = endpoint->tls;
    endpoint->pass = std::make_shared<EnginePass>(url, std::move(access), tls);
  }
  auto made = std::make_shared<Engine>(*this, url, std::move(*endpoint));
  const std::lock_guard lock(mutex_);
  if (auto engine = known(url)) return engine;  // another thread was faster
  engines_[url] = made;
  return made;
}

void EngineBook::set_access(const std::string& url, const base::EngineAccess& access) {
  const std::lock_guard lock(mutex_);
  if (access.any())
    access_[url] = access;
  else
    access_.erase(url);
}

AccessByUrl EngineBook::access() const {
  const std::lock_guard lock(mutex_);
  return access_;
}

void EngineBook::keep_access(const std::set<std::string>& urls) {
  const std::lock_guard lock(mutex_);
  std::erase_if(access_, [&](const auto& item) { return !urls.contains(item.first); });
}

void EngineBook::refresh_files() const {
  for (const auto& engine : engines()) {
    if (const auto& pass = engine->endpoint().pass) pass->refresh();
  }
}

std::vector<std::shared_ptr<Engine>> EngineBook::engines() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Engine>> found;
  for (const auto& [url, known] : engines_) {
    if (auto engine = known.lock()) found.push_back(std::move(engine));
  }
  return found;
}

void EngineBook::record(BreakerEvent event) {
  if (event.opened) openings_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  event.number = next_number_++;
  events_.push_back(std::move(event));
  if (events_.size() > kMaxEvents) events_.pop_front();
}

HealthReport EngineBook::report(std::string router_id, std::uint64_t after, Engine::Time now,
                                bool outages_alone) const {
  HealthReport report;
  report.router_id = std::move(router_id);
  for (const auto& engine : engines()) {
    auto status = engine->status(now);
    if (outages_alone && status.state == BreakerState::closed) continue;
    report.engines.push_back(std::move(status));
  }
  const std::lock_guard lock(mutex_);
  std::ranges::copy_if(events_, std::back_inserter(report.events),
                       [&](const BreakerEvent& event) { return event.number > after; });
  return report;
}

}  // namespace driftgate::route
