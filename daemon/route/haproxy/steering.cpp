#include "daemon/route/haproxy/steering.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "daemon/base/clock.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/table/decide.hpp"
#include "daemon/route/worker/core.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::haproxy {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kLeaseBackend = "driftgate_lease";
constexpr const char* kLeaseServer = "driftgate_lease/lease";
constexpr const char* kOrders = "driftgate_orders";
constexpr const char* kBoot = "proc.driftgate_boot";

bool is_newer(const HeldRoute& held, const ModelRoute& route) {
  return std::pair(held.epoch, held.revision) > std::pair(route.epoch, route.revision);
}

std::vector<MapEntry> sorted(std::vector<MapEntry> entries) {
  std::ranges::sort(entries);
  return entries;
}

/// The routes in a map, by model.
std::map<std::string, HeldRoute> routes_in(const std::vector<MapEntry>& entries) {
  std::map<std::string, HeldRoute> held;
  for (const auto& entry : entries) {
    if (auto route = read_route(entry)) held.insert_or_assign(entry.key, std::move(*route));
  }
  return held;
}

void copy_owned(const std::vector<MapEntry>& from, const HeldRoute& route, std::vector<MapEntry>& to) {
  std::ranges::copy_if(from, std::back_inserter(to),
                       [&](const auto& entry) { return belongs_to(entry, route); });
}

schema::Error newer_route(const HeldRoute& held, const ModelRoute& route) {
  return {schema::ErrorCode::conflict,
          fmt::format(
              "route of model '{}' at epoch {} revision {} is refused: HAProxy holds epoch {} revision {}; "
              "read the route back and write under a newer epoch",
              route.model, route.epoch, route.revision, held.epoch, held.revision),
          {},
          nullptr};
}

/// What the maps shall hold: the routes that are wanted, what is `newer` as it is, and every other model
/// without its candidate.
Maps aim(const std::vector<PlacedRoute>& wanted, const std::set<std::string>& newer, const Maps& held) {
  Maps target;
  std::set<std::string> known;
  for (const auto& one : wanted) {
    append_entries(one.observed, one.backend, target);
    known.insert(one.observed.route.model);
  }
  for (const auto& entry : held.routes) {
    const auto route = read_route(entry);
    if (!route || known.contains(route->model)) continue;
    if (newer.contains(route->model)) {
      target.routes.push_back(entry);
      copy_owned(held.routes, *route, target.routes);
      copy_owned(held.slices, *route, target.slices);
    } else if (auto safe = without_candidate(entry)) {
      target.routes.push_back(std::move(*safe));
    }
  }
  return target;
}

/// HAProxy did not answer: there is no use in asking further.
bool is_away(const schema::Error& error) {
  return error.code == schema::ErrorCode::unavailable || error.code == schema::ErrorCode::deadline_exceeded;
}

}  // namespace

Steering::Steering(const RouterOptions& options, RouteTable& routes, Ledger& ledger, StartFiles files,
                   Slots slots, base::UniqueFd lock)
    : routes_(routes),
      ledger_(ledger),
      runtime_(options.haproxy_socket),
      deadline_(options.request_deadline_ms),
      lock_(std::move(lock)),
      files_(std::move(files)),
      slots_(std::move(slots)) {}

schema::Result<std::unique_ptr<Steering>> Steering::start(const RouterOptions& options, std::uint16_t port,
                                                          RouteTable& routes, Ledger& ledger) {
  auto address = TRY(router_address(options.listen, port));
  auto files = TRY(StartFiles::open(options, std::move(address)));
  auto lock = TRY(lock_file(files.files().lock()));
  auto slots = TRY(Slots::load(files.files().slots(), options.haproxy_models));
  const auto begin = place_all(routes.held(), slots, [](const std::string& model, const schema::Error& why) {
    spdlog::warn("router: HAProxy begins without model {}: {}", model, why.describe());
  });
  TRY(files.write(begin, slots));
  auto socket = TRY(bind_log_socket(options.haproxy_log));
  std::unique_ptr<Steering> steering(
      new Steering(options, routes, ledger, std::move(files), std::move(slots), std::move(lock)));
  steering->listen(std::move(socket));
  steering->loop_.start([raw = steering.get()] { return raw->look(); },
                        [](const State& /*state*/) { return kLookEvery; });
  return steering;
}

void Steering::listen(base::UniqueFd socket) {
  book_.emplace(ledger_, deadline_, base::wall_clock_us());
  reader_ = std::make_unique<LogReader>(
      std::move(socket),
      [this](std::string_view text) {
        auto line = parse_log_line(text, files_.secret());
        if (line) book_->add(std::move(*line), Clock::now());
      },
      [this] { book_->tick(Clock::now()); });
}

Steering::~Steering() = default;

Capabilities Steering::capabilities() const {
  return haproxy_capabilities();
}

void Steering::wake() {
  loop_.wake();
}

schema::Result<void> Steering::settle(const std::string& model) {
  return loop_.settle(model, [](const State& /*state*/) { return true; });
}

std::vector<ObservedRoute> Steering::held(std::vector<ObservedRoute> routes) const {
  return loop_.read([&](const State& state) {
    std::vector<ObservedRoute> found;
    if (state.fault || Clock::now() - state.succeeded > kFresh) return found;
    for (auto& observed : routes) {
      const auto tag = state.seen.tags.find(observed.route.model);
      if (tag == state.seen.tags.end() || tag->second != tag_of(observed)) continue;
      const bool expired = !state.seen.lease && exposes_candidate(observed.route);
      found.push_back({effective_route(std::move(observed.route), expired), observed.reverted || expired});
    }
    return found;
  });
}

bool Steering::may_expose() const {
  const auto now = Clock::now();
  if (!routes_.lease_holds(now)) return false;
  return loop_.read([&](const State& state) { return now - state.succeeded < kFresh; });
}

std::string Steering::fault() const {
  return loop_.read([](const State& state) -> std::string {
    if (state.fault) return state.fault->describe();
    return state.done == 0 ? "HAProxy was not looked at yet" : "";
  });
}

/// Makes HAProxy hold the table's routes, and its files say what the next HAProxy begins with.
schema::Result<Steering::Seen> Steering::look() {
  Seen seen;
  const auto wanted = plan(routes_.observe(), seen);
  // What takes a share away must not wait for a disk, and the files are written whether HAProxy runs or not.
  const auto steered = steer(wanted, seen);
  const auto kept = files_.write(wanted, slots_);
  if (!steered) return std::unexpected(steered.error());
  if (!kept)
    return schema::wrap(kept.error(), "the route is in force, but a restart of HAProxy would not know it");
  return seen;
}

/// A route that HAProxy holds and that is newer than the table's stays; a model whose route cannot be held,
/// or that the table does not know, loses its candidate. What is wrong with one model keeps no other from its
/// route.
schema::Result<void> Steering::steer(const Placed& wanted, Seen& seen) {
  const auto boot = TRY(meet_process());
  auto routes = TRY(runtime_.show_map(files_.files().routes()));
  auto slices = TRY(runtime_.show_map(files_.files().slices()));
  const Maps held{std::move(routes), std::move(slices)};
  const auto there = routes_in(held.routes);
  std::set<std::string> newer;
  Placed fit;
  for (const auto& one : wanted) {
    const auto& route = one.observed.route;
    const auto found = there.find(route.model);
    if (found != there.end() && is_newer(found->second, route)) {
      newer.insert(route.model);
      seen.refused.emplace(route.model, newer_route(found->second, route));
      continue;
    }
    const auto ready = bring_servers(one);
    if (ready) {
      fit.push_back(one);
    } else if (is_away(ready.error())) {
      return ready;
    } else {
      seen.refused.emplace(route.model, ready.error());
    }
  }
  const auto target = aim(fit, newer, held);
  const auto now_held = TRY(bring_maps(target, held));
  for (const auto& [model, route] : routes_in(now_held)) seen.tags.emplace(model, route.tag);
  for (const auto& one : fit) TRY(retire_servers(one));
  return compare_counts(boot, fit, seen);
}

/// Which HAProxy process answers, and what it had routed before it was met.
schema::Result<std::uint64_t> Steering::meet_process() {
  const auto boot = TRY(runtime_.number(kBoot));
  if (boot == boot_) return boot;
  const auto orders = TRY(runtime_.counters(kOrders));
  const auto dropped = TRY(runtime_.dropped_logs());
  book_->note_process(boot, orders);
  if (boot_ != 0) spdlog::warn("router: HAProxy was started anew; it gets its routes again");
  boot_ = boot;
  dropped_before_ = dropped;
  return boot;
}

Steering::Placed Steering::plan(const std::vector<ObservedRoute>& routes, Seen& seen) {
  Placed wanted;
  for (const auto& observed : routes) {
    auto one = placed(observed);
    if (!one) {
      seen.refused.emplace(observed.route.model, one.error());
      continue;
    }
    // HAProxy may go back to the route without exposure by itself: when it is started anew.
    book_->note_route(observed, one->backend);
    book_->note_route({effective_route(observed.route, true), true}, one->backend);
    wanted.push_back(std::move(*one));
  }
  return wanted;
}

schema::Result<PlacedRoute> Steering::placed(const ObservedRoute& observed) {
  const auto& model = observed.route.model;
  const auto known = placed_.find(model);
  if (known != placed_.end() && known->second.observed.route == observed.route) {
    known->second.observed.reverted = observed.reverted;
    return known->second;
  }
  auto one = TRY(place(observed, slots_));
  placed_.insert_or_assign(model, one);
  return one;
}

schema::Result<void> Steering::bring_servers(const PlacedRoute& wanted) {
  const auto show = fmt::format("show servers state {}", wanted.backend);
  auto shown = TRY(runtime_.ask(show));
  const auto commands = commands_before(wanted.backend, wanted.servers, parse_servers(shown));
  if (commands.empty()) return {};
  std::string said;
  for (const auto& command : commands) {
    auto answer = TRY(runtime_.ask(command));
    said += answer;
  }
  shown = TRY(runtime_.ask(show));
  if (commands_before(wanted.backend, wanted.servers, parse_servers(shown)).empty()) return {};
  std::ranges::replace(said, '\n', ' ');
  return schema::failf(schema::ErrorCode::conflict,
                       "HAProxy's backend {} does not get the servers of model '{}': {:.300}", wanted.backend,
                       wanted.observed.route.model, said);
}

/// Both maps at the target; the routes that are held then, read back.
schema::Result<std::vector<MapEntry>> Steering::bring_maps(const Maps& target, const Maps& present) {
  const bool change = sorted(target.routes) != sorted(present.routes);
  TRY(bring_slices(target.slices, present, change));
  if (!change) return present.routes;
  const auto file = files_.files().routes();
  TRY(runtime_.replace_map(file, target.routes));
  committed_ = Clock::now();
  auto held = TRY(runtime_.show_map(file));
  if (sorted(held) == sorted(target.routes)) return held;
  return schema::fail(schema::ErrorCode::conflict,
                      "HAProxy's routes were changed by somebody else at the same time; they are set again");
}

/// Before routes change the map has the slices of the present ones and of the next ones; those that nobody
/// needs any more go later, when no request can still be on its way through the rules.
schema::Result<void> Steering::bring_slices(const std::vector<MapEntry>& target, const Maps& held,
                                            bool routes_change) {
  auto wanted = target;
  if (routes_change) {
    for (const auto& [model, route] : routes_in(held.routes)) {
      std::ranges::copy_if(held.slices, std::back_inserter(wanted), [&](const auto& entry) {
        return belongs_to(entry, route) && std::ranges::find(target, entry) == target.end();
      });
    }
  } else if (Clock::now() - committed_ < kLookEvery) {
    return {};
  }
  if (wanted == held.slices) return {};
  return runtime_.replace_map(files_.files().slices(), wanted);
}

/// Refusals are no faults: a server that still answers requests is deleted another time.
schema::Result<void> Steering::retire_servers(const PlacedRoute& wanted) {
  const auto shown = TRY(runtime_.ask(fmt::format("show servers state {}", wanted.backend)));
  for (const auto& command : commands_after(wanted.backend, wanted.servers, parse_servers(shown)))
    TRY(runtime_.ask(command));
  return {};
}

schema::Result<void> Steering::compare_counts(std::uint64_t boot, const Placed& wanted, Seen& seen) {
  std::vector<std::string> backends{std::string(kLeaseBackend)};
  for (const auto& one : wanted) backends.push_back(one.backend);
  const auto orders = TRY(runtime_.counters(kOrders));
  const auto statistics = TRY(runtime_.statistics(backends));
  const auto dropped_logs = TRY(runtime_.dropped_logs());
  const auto lease = statistics.find(kLeaseServer);
  seen.lease = lease != statistics.end() && !lease->second.status.starts_with("DOWN");
  const auto unsent = dropped_logs > dropped_before_ ? dropped_logs - dropped_before_ : 0;
  for (const auto& one : wanted) {
    Counted counted{.boot = boot, .backend = one.backend, .model = one.observed.route.model, .routed = {}};
    if (const auto order = orders.find(one.backend); order != orders.end()) counted.routed = order->second;
    if (const auto sum = statistics.find(one.backend + "/BACKEND"); sum != statistics.end())
      counted.in_flight = sum->second.current;
    book_->compare(counted, unsent + reader_->overflowed(), Clock::now());
  }
  return {};
}

}  // namespace driftgate::route::haproxy
