#include "tests/daemon/pipeline/fakes.hpp"

#include <algorithm>
#include <filesystem>

namespace driftgate::pipeline::fakes {
namespace {

using schema::ErrorCode;

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

schema::Result<void> FakeDriver::apply(const route::ModelRoute& route) {
  if (on_step) on_step("apply route", false);
  auto applied_now = apply_now(route);
  if (on_step) on_step("apply route", true);
  return applied_now;
}

schema::Result<void> FakeDriver::apply_now(const route::ModelRoute& route) {
  const std::lock_guard guard(mutex);
  if (broken) return schema::fail(ErrorCode::unavailable, "the data plane is gone");
  if (lies) return {};
  if (keeps_no_answers && route.mirror_bp > 0 && !route.candidate)
    return schema::fail(ErrorCode::invalid_argument, "mirrors and has no candidate");
  auto& held = routes[route.model];
  if (held.route.epoch > route.epoch) return schema::fail(ErrorCode::conflict, "an older epoch");
  held = {route, false};
  applied.push_back(route);
  changed.notify_all();
  return {};
}

schema::Result<std::vector<route::ObservedRoute>> FakeDriver::observe() {
  const std::lock_guard guard(mutex);
  if (broken) return schema::fail(ErrorCode::unavailable, "the data plane is gone");
  std::vector<route::ObservedRoute> all;
  for (const auto& [model, held] : routes) all.push_back(held);
  return all;
}

schema::Result<void> FakeDriver::heartbeat() {
  if (broken) return schema::fail(ErrorCode::unavailable, "the data plane is gone");
  return {};
}

schema::Result<std::vector<route::Window>> FakeDriver::windows(const route::WindowPosition& after,
                                                            std::size_t limit) {
  if (broken) return schema::fail(ErrorCode::unavailable, "the data plane is gone");
  std::vector<route::Window> found;
  for (const auto& window : closed) {
    const bool read = window.router_id == after.router_id && window.number <= after.number;
    if (!read && found.size() < limit) found.push_back(window);
  }
  return found;
}

schema::Result<void> FakeDriver::acknowledge(const route::WindowPosition& position) {
  if (on_step) on_step("acknowledge window", false);
  std::erase_if(closed, [&](const route::Window& window) {
    return window.router_id == position.router_id && window.number <= position.number;
  });
  if (on_step) on_step("acknowledge window", true);
  return {};
}

schema::Result<void> FakeDriver::acknowledge_models(const std::string& router,
                                                    const std::map<std::string, std::uint64_t>& models) {
  std::erase_if(closed, [&](const route::Window& window) {
    const auto stored = models.find(window.model);
    return window.router_id == router && stored != models.end() && window.number <= stored->second;
  });
  return {};
}

schema::Result<route::HealthReport> FakeDriver::health(const route::WindowPosition& after) {
  if (broken) return schema::fail(ErrorCode::unavailable, "the data plane is gone");
  route::HealthReport report;
  report.router_id = router_id;
  for (const auto& [url, since_us] : opened_us) {
    route::EngineStatus status;
    status.url = url;
    const bool tried = std::ranges::find(half_open, url) != half_open.end();
    status.state = tried ? route::BreakerState::half_open : route::BreakerState::open;
    status.failures = 3;
    status.reason = "first_byte";
    status.first_failure_us = since_us - 100'000;
    status.open_ms = static_cast<std::uint64_t>((clock_us ? clock_us() : since_us) - since_us) / 1'000;
    report.engines.push_back(status);
  }
  for (const auto& event : breaker_events) {
    if (after.router_id != router_id || event.number > after.number) report.events.push_back(event);
  }
  return report;
}

void FakeDriver::open_breaker(const std::string& url, std::int64_t now_us, const std::string& reason) {
  opened_us[url] = now_us;
  route::BreakerEvent event;
  event.number = breaker_events.size() + 1;
  event.url = url;
  event.opened = true;
  event.reason = reason;
  event.failures = 3;
  event.at_us = now_us;
  event.first_failure_us = now_us - 100'000;
  breaker_events.push_back(event);
}

void FakeDriver::close_breaker(const std::string& url, std::int64_t now_us) {
  route::BreakerEvent event;
  event.number = breaker_events.size() + 1;
  event.url = url;
  event.reason = "first_byte";
  event.at_us = now_us;
  event.open_ms = static_cast<std::uint64_t>(now_us - opened_us.at(url)) / 1'000;
  opened_us.erase(url);
  breaker_events.push_back(event);
}

schema::Result<std::string> FakeDriver::spool_path(const std::string& stage_key) {
  return "/spool/" + stage_key;
}
schema::Result<void> FakeDriver::drop_spool(const std::string& stage_key) {
  dropped.push_back(stage_key);
  return {};
}

void FakeDriver::serve(const std::string& model, std::size_t count, std::int64_t now_us,
                       const std::function<bool(std::uint64_t, const std::string&)>& fails) {
  const auto& route = routes.at(model).route;
  const auto falls_back = [&](const std::string& language) {
    const auto to_fallback = [&](const route::SliceWeight& weight) {
      return weight.to_fallback && weight.where == std::map<std::string, std::string>{{"language", language}};
    };
    return route.all_to_fallback || std::ranges::any_of(route.slices, to_fallback);
  };
  route::Window window;
  window.number = next_number++;
  window.previous = std::exchange(last_number[model], window.number);
  window.router_id = router_id;
  window.model = model;
  window.stage_key = route.stage_key;
  window.start_us = now_us - 1'000'000;
  window.end_us = now_us;
  for (std::size_t i = 0; i < count; ++i) {
    route::Observation seen;
    seen.order = next_order++;
    seen.key_hash = mixed(seen.order);
    const std::string language = i % 4 == 0 ? "de" : "en";
    const bool fallback = falls_back(language);
    seen.slice = "language=" + language;
    seen.candidate_bp = fallback ? 0 : route.candidate_bp;
    seen.candidate = seen.key_hash % route::kFullShareBp < seen.candidate_bp;
    seen.routed_us = now_us;
    seen.ttft_ms = 5;
    seen.inter_token_ms = 1;
    seen.total_ms = 20;
    const bool of_incumbent = !seen.candidate && !fallback && incumbent_fails && incumbent_fails(seen.order);
    if (of_incumbent || (seen.candidate && fails && fails(candidate_requests, seen.slice))) {
      seen.outcome = route::Outcome::failed;
      seen.reason = "status_500";
    }
    if (seen.candidate) ++candidate_requests;
    if (seen.candidate && language == "de") ++german_candidate_requests;
    if (fallback) ++fallback_requests;
    window.observations.push_back(seen);
  }
  window.mirrored = route.mirror_bp == 0 ? 0 : count * route.mirror_bp / route::kFullShareBp;
  closed.push_back(std::move(window));
}

std::uint32_t FakeDriver::share(const std::string& model) const {
  const std::lock_guard guard(mutex);
  const auto found = routes.find(model);
  return found == routes.end() || !found->second.route.candidate ? 0 : found->second.route.candidate_bp;
}

schema::Result<void> FakeRunner::start(const jobs::JobSpec& spec) {
  if (on_step) on_step("start job", false);
  started.push_back(spec.key);
  running_[spec.key] = spec;
  if (on_step) on_step("start job", true);
  return {};
}

void FakeRunner::cancel(const std::string& key) {
  if (deaf) return;
  cancelled.push_back(key);
  if (running_.contains(key)) to_fail_.insert(key);
}

std::optional<jobs::JobPlace> FakeRunner::place(const std::string& key) {
  if (!running_.contains(key)) return std::nullopt;
  return runs_at;
}

void FakeRunner::forget(const std::string& prefix) {
  std::erase_if(running_, [&](const auto& item) { return item.first.starts_with(prefix); });
}

std::string FakeRunner::folder(const std::string& key) const {
  auto name = key;
  std::ranges::replace(name, '/', '.');
  return root_ + "/" + name;
}

void FakeRunner::finish_all() {
  const auto ended = std::exchange(running_, {});
  for (const auto& [key, spec] : ended) {
    std::filesystem::create_directories(folder(key));
    auto result = to_fail_.erase(key) > 0 && !spare
                      ? jobs::failed(ErrorCode::conflict, "the job was cancelled")
                      : make(spec, folder(key));
    auto place = runs_at;
    place.state = "ended";
    if (callback_) callback_({key, std::move(result), std::move(place), folder(key)});
  }
}

schema::Result<std::vector<Event>> FaultyCommitter::commit(std::string_view what, const Work& work) {
  if (before) before(what);
  if (count++ == fail_at) return schema::fail(fail_code, "no space left");
  const std::string name(what);
  if (on_step) on_step(name, false);
  auto done = inner_.commit(what, work);
  if (on_step) on_step(name, true);
  return done;
}

}  // namespace driftgate::pipeline::fakes
