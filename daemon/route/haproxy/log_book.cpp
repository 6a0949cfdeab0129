#include "daemon/route/haproxy/log_book.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/route/haproxy/maps.hpp"

namespace driftgate::route::haproxy {
namespace {

// As in the ledger: the true ending wins over the assumed one.
constexpr std::chrono::seconds kSlack{2};

}  // namespace

void LogBook::note_route(const ObservedRoute& route, const std::string& backend) {
  const std::lock_guard lock(mutex_);
  const Key key{backend, tag_of(route)};
  const auto [place, added] = notes_.insert_or_assign(key, Note{route.route.model, route.route.stage_key});
  if (!added) return;
  noted_.push_back(key);
  if (noted_.size() <= kMaxRoutes) return;
  notes_.erase(noted_.front());
  noted_.pop_front();
}

bool LogBook::heard_from_start(std::uint64_t boot) const {
  return static_cast<std::int64_t>(boot) >= since_us_;
}

LogBook::Process& LogBook::process(std::uint64_t boot) {
  const auto [place, added] = processes_.try_emplace(boot);
  // The oldest go: reloads leave processes behind that only finish what they have.
  while (processes_.size() > kMaxProcesses && processes_.begin() != place)
    processes_.erase(processes_.begin());
  return place->second;
}

LogBook::Lines& LogBook::lines(std::uint64_t boot, const std::string& backend, std::uint32_t base) {
  auto& all = process(boot);
  const auto known = all.orders.find(backend);
  if (known != all.orders.end()) base = known->second;
  const bool from_start = heard_from_start(boot);
  return all.backends.try_emplace(backend, Lines{Arrivals(from_start ? 0 : base)}).first->second;
}

void LogBook::note_process(std::uint64_t boot, const std::map<std::string, std::uint32_t>& orders) {
  const std::lock_guard lock(mutex_);
  auto& all = process(boot);
  if (!std::exchange(all.noted, true)) all.orders = orders;
}

void LogBook::add(LogLine line, Time now) {
  const std::lock_guard lock(mutex_);
  auto& from = lines(line.boot, line.backend, line.order - 1);
  const auto lasted = std::chrono::microseconds(std::max<std::int64_t>(line.ended_us - line.routed_us, 0));
  from.arrivals.add(std::move(line), now - lasted + deadline_ + kSlack);
  release(from, now);
}

void LogBook::tick(Time now) {
  const std::lock_guard lock(mutex_);
  for (auto& [boot, all] : processes_) {
    for (auto& [backend, from] : all.backends) release(from, now);
  }
}

void LogBook::release(Lines& from, Time now) {
  for (const auto& line : from.arrivals.take(now)) emit(line);
}

/// A route that is not known was in force before this router began: its telemetry went with the router then.
void LogBook::emit(const LogLine& line) {
  const auto note = notes_.find({line.backend, line.tag});
  if (note == notes_.end()) return;
  auto seen = observation_of(line);
  const Ending ending = seen;  // NOLINT(cppcoreguidelines-slicing): its part that tells the end
  const auto now = Ledger::Time::clock::now();
  const auto ticket = ledger_.begin(note->second.model, note->second.stage_key, std::move(seen), now);
  ledger_.finish(ticket, ending, now);
}

void LogBook::compare(const Counted& counted, std::uint64_t dropped, Time now) {
  const std::lock_guard lock(mutex_);
  if (!counted.routed) return;
  auto& from = lines(counted.boot, counted.backend, *counted.routed);
  from.arrivals.expect(*counted.routed, now + deadline_ + kSlack);
  release(from, now);
  const std::uint64_t overdue = from.arrivals.overdue();
  const auto beyond = overdue > counted.in_flight ? overdue - counted.in_flight : 0;
  // A line may be on its way when HAProxy has just counted its request as over: it is here the next time.
  const auto twice = std::min(beyond, std::exchange(from.beyond, beyond));
  const auto lost = std::max(twice, std::min(dropped, overdue));
  if (lost <= from.lost) return;
  const auto more = lost - std::exchange(from.lost, lost);
  spdlog::warn("router: {} log lines of HAProxy about model {} are lost", more, counted.model);
  ledger_.count_lost(counted.model, more);
}

}  // namespace driftgate::route::haproxy
