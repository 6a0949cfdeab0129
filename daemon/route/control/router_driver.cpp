#include "daemon/route/control/router_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/base/json_members.hpp"
#include "daemon/route/control/control_place.hpp"
#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/relay/forward.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/worker/core.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kPeerDeadline{1'000};
constexpr std::size_t kMaxRoutesAtOnce = 256;              // in one request
constexpr std::size_t kMaxListBytes = kMaxFrameBytes / 2;  // of these routes, the first aside

std::unexpected<schema::Error> strange(std::string_view what) {
  return schema::failf(schema::ErrorCode::internal,
                       "the router's answer has no usable {}; do daemon and router have the same version?",
                       what);
}

/// The list `name` of an answer, each element read by `read`.
template <typename T>
schema::Result<std::vector<T>> list_of(const json& reply, const char* name,
                                       schema::Result<T> (*read)(const json&)) {
  const auto* list = base::member(reply, name);
  if (list == nullptr || !list->is_array()) return strange(name);
  std::vector<T> values;
  for (const auto& entry : *list) {
    auto value = TRY(read(entry));
    values.push_back(std::move(value));
  }
  return values;
}

/// Makes the list say less than it did where another router holds something else: the smaller share, and as a
/// route that was reverted, which is not what anybody desires.
void agree_with(std::vector<ObservedRoute>& routes, const ObservedRoute& other) {
  const auto held = std::ranges::find_if(
      routes, [&](const ObservedRoute& one) { return one.route.model == other.route.model; });
  if (held == routes.end()) {
    routes.push_back(other);
    routes.back().reverted = true;
    return;
  }
  if (held->route == other.route && held->reverted == other.reverted) return;
  if (other.route.candidate_bp < held->route.candidate_bp) held->route = other.route;
  held->reverted = true;
}

/// Only a closed or refused connection is worth a second try; a deadline has been waited for already.
bool worth_retrying(const schema::Error& error) {
  return error.code == schema::ErrorCode::unavailable;
}

}  // namespace

RouterDriver::RouterDriver(std::string control_path, std::chrono::milliseconds deadline)
    : RouterDriver(std::move(control_path), router_capabilities(), deadline) {}

RouterDriver::RouterDriver(std::string control_path, Capabilities can, std::chrono::milliseconds deadline)
    : control_path_(std::move(control_path)), can_(std::move(can)), deadline_(deadline) {}

Capabilities RouterDriver::capabilities() const {
  return can_;
}

schema::Result<std::string> RouterDriver::send_once(const std::string& frame,
                                                    std::chrono::steady_clock::time_point deadline) {
  if (!socket_) {
    auto socket = TRY(connect_unix(control_path_));
    socket_ = std::move(socket);
    buffer_.clear();
  }
  auto sent = write_all(socket_.get(), frame, deadline);
  auto answer = sent ? read_frame(socket_.get(), buffer_, deadline)
                     : schema::Result<std::string>(std::unexpected(sent.error()));
  // A connection with half an answer on it cannot be used again.
  if (!answer) socket_.reset();
  return answer;
}

schema::Result<json> RouterDriver::call(const json& request) {
  const auto text = dumped(request);
  if (text.size() > kMaxFrameBytes) {
    return schema::fail(schema::ErrorCode::limit_exceeded,
                        "the request to the router is larger than a frame may be");
  }
  const auto frame = encode_frame(text);
  const std::lock_guard lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + deadline_;
  const bool had_connection = static_cast<bool>(socket_);
  auto answer = send_once(frame, deadline);
  if (!answer && had_connection && worth_retrying(answer.error())) answer = send_once(frame, deadline);
  if (!answer)
    return schema::wrap(answer.error(), fmt::format("the router at {} does not answer", control_path_));
  auto reply = parse_json(*answer);
  if (!reply) return schema::wrap(reply.error(), "cannot parse the router's answer");
  const auto* ok = base::member(*reply, "ok");
  if (ok == nullptr || !ok->is_boolean()) return strange("'ok'");
  if (!ok->get<bool>()) return std::unexpected(error_from_json(reply->value("error", json())));
  return reply;
}

RouterDriver::Peers RouterDriver::peers() {
  const std::lock_guard lock(peers_mutex_);
  std::map<std::string, std::shared_ptr<RouterDriver>> found;
  Peers peers;
  for (const auto& path : sockets_aside(control_path_)) {
    auto& peer = found[path];
    const auto known = peers_.find(path);
    peer = known == peers_.end()
               ? std::make_shared<RouterDriver>(path, can_, std::min(deadline_, kPeerDeadline))
               : known->second;
    peers.push_back(peer);
  }
  peers_ = std::move(found);
  return peers;
}

bool RouterDriver::is_gone(const schema::Error& error) const {
  return error.code == schema::ErrorCode::unavailable && !process_lives(process_of_socket(control_path_));
}

/// What the route's engines ask for; nothing when that cannot be said.
std::optional<AccessByUrl> RouterDriver::access_for(const ModelRoute& route) const {
  if (!access_of_) return std::nullopt;
  AccessByUrl asked;
  for (const auto& arm : {std::optional(route.incumbent), route.candidate, route.fallback}) {
    if (!arm) continue;
    auto access = access_of_(arm->url);
    if (!access) return std::nullopt;
    if (access->any()) asked[arm->url] = std::move(*access);
  }
  return asked;
}

/// `unsupported` when the router that runs would not understand what engines ask for.
schema::Result<void> RouterDriver::check_understands_access() {
  const auto reply = TRY(call({{"op", "capabilities"}}));
  const auto* can = base::member(reply, "capabilities");
  const auto* understands = can == nullptr ? nullptr : base::member(*can, "engine_access");
  if (understands != nullptr && *understands == true) return {};
  return schema::failf(
      schema::ErrorCode::unsupported,
      "the running router cannot show keys to engines or use CA files of theirs: it is of an "
      "older version, or steers HAProxy; stop it with 'driftgate router-stop' to replace it");
}

schema::Result<void> RouterDriver::apply_here(const ModelRoute& route,
                                              const std::optional<AccessByUrl>& access) {
  json request{{"op", "apply"}, {"route", to_json(route)}};
  if (access && !access->empty()) TRY(check_understands_access());
  if (access) request["access"] = to_json(*access);
  TRY(call(request));
  return {};
}

schema::Result<void> RouterDriver::apply(const ModelRoute& route) {
  const auto access = access_for(route);
  auto applied = apply_here(route, access);
  for (const auto& peer : peers()) {
    const auto also = peer->apply_here(route, access);
    if (also || peer->is_gone(also.error()) || !applied) continue;
    applied = schema::wrap(also.error(), "a router that has not ended yet does not take the route");
  }
  return applied;
}

schema::Result<void> RouterDriver::apply_list_here(const json& list) {
  json several = json::array();
  std::size_t bytes = 0;
  const auto send = [&]() -> schema::Result<void> {
    if (several.empty()) return {};
    const auto sent = call({{"op", "apply_all"}, {"routes", several}});
    // A router of an older version takes them one by one.
    const bool unknown = !sent && sent.error().code == schema::ErrorCode::invalid_argument;
    schema::Result<void> done = sent || unknown ? schema::Result<void>{} : std::unexpected(sent.error());
    for (const auto& one : unknown ? several : json::array()) {
      auto request = one;
      request["op"] = "apply";
      const auto applied = call(request);
      if (done && !applied) done = std::unexpected(applied.error());
    }
    several = json::array();
    bytes = 0;
    return done;
  };
  const auto asks = [](const json& one) { return one.contains("access") && !one["access"].empty(); };
  auto applied = std::ranges::any_of(list, asks) ? check_understands_access() : schema::Result<void>{};
  const bool leaves_out = !applied;
  for (const auto& one : list) {
    if (leaves_out && asks(one)) continue;
    const auto size = dumped(one).size();
    if (several.size() >= kMaxRoutesAtOnce || bytes + size > kMaxListBytes) {
      auto sent = send();
      if (applied && !sent) applied = std::move(sent);
    }
    several.push_back(one);
    bytes += size;
  }
  auto sent = send();
  return applied ? sent : applied;
}

schema::Result<void> RouterDriver::apply_all(const std::vector<ModelRoute>& routes) {
  json list = json::array();
  for (const auto& route : routes) {
    json one{{"route", to_json(route)}};
    const auto access = access_for(route);
    if (access) one["access"] = to_json(*access);
    list.push_back(std::move(one));
  }
  auto applied = apply_list_here(list);
  for (const auto& peer : peers()) {
    const auto also = peer->apply_list_here(list);
    if (also || peer->is_gone(also.error()) || !applied) continue;
    applied = schema::wrap(also.error(), "a router that has not ended yet does not take the routes");
  }
  return applied;
}

/// Page after page. What a version is known of is kept, for the next time.
schema::Result<std::vector<ObservedRoute>> RouterDriver::observe_all(json first) {
  auto reply = TRY(call(first));
  if (const auto* same = base::member(reply, "unchanged"); same != nullptr && *same == true) {
    const std::lock_guard lock(held_mutex_);
    if (held_version_ == base::text_at(first, "unless")) return held_;
    return schema::fail(schema::ErrorCode::unavailable, "the routes were read by another thread meanwhile");
  }
  const auto version = base::text_at(reply, "version");
  bool whole = !version.empty();
  auto routes = TRY(list_of(reply, "routes", observed_from_json));
  for (auto next = base::text_at(reply, "next"); !next.empty(); next = base::text_at(reply, "next")) {
    reply = TRY(call({{"op", "observe"}, {"after", next}}));
    whole = whole && base::text_at(reply, "version") == version;
    auto more = TRY(list_of(reply, "routes", observed_from_json));
    std::ranges::move(more, std::back_inserter(routes));
  }
  const std::lock_guard lock(held_mutex_);
  held_version_ = whole ? version : std::string();
  held_ = whole ? routes : std::vector<ObservedRoute>();
  return routes;
}

schema::Result<std::vector<ObservedRoute>> RouterDriver::observe_here() {
  json request{{"op", "observe"}};
  {
    const std::lock_guard lock(held_mutex_);
    if (!held_version_.empty()) request["unless"] = held_version_;
  }
  auto routes = observe_all(request);
  if (!routes && request.contains("unless") && routes.error().code == schema::ErrorCode::unavailable)
    return observe_all({{"op", "observe"}});
  return routes;
}

schema::Result<std::vector<ObservedRoute>> RouterDriver::observe_model_here(const std::string& model) {
  const auto reply = TRY(call({{"op", "observe"}, {"model", model}}));
  return list_of(reply, "routes", observed_from_json);
}

schema::Result<std::vector<ObservedRoute>> RouterDriver::observe() {
  return observe_with([](RouterDriver& router) { return router.observe_here(); });
}

schema::Result<std::vector<ObservedRoute>> RouterDriver::observe_model(const std::string& model) {
  return observe_with([&](RouterDriver& router) { return router.observe_model_here(model); });
}

template <typename ObserveHere>
schema::Result<std::vector<ObservedRoute>> RouterDriver::observe_with(ObserveHere observe_at) {
  auto routes = TRY(observe_at(*this));
  for (const auto& peer : peers()) {
    const auto others = observe_at(*peer);
    if (!others && peer->is_gone(others.error())) continue;
    if (!others)
      return schema::wrap(others.error(), "a router that has not ended yet does not say what it holds");
    for (const auto& other : *others) agree_with(routes, other);
  }
  return routes;
}

schema::Result<void> RouterDriver::heartbeat() {
  for (const auto& peer : peers()) (void)peer->call({{"op", "heartbeat"}});  // else its lease ends by itself
  TRY(call({{"op", "heartbeat"}}));
  return {};
}

/// Where `after` is of another router, this one goes on behind what came from it before: otherwise windows that
/// cannot be acknowledged yet would come first each time.
schema::Result<std::vector<Window>> RouterDriver::windows_here(const WindowPosition& after,
                                                               std::size_t limit) {
  WindowPosition from = after;
  {
    const std::lock_guard lock(read_mutex_);
    if (!after.router_id.empty() && after.router_id != read_.router_id) from = read_;
  }
  const bool known = !from.router_id.empty();
  if (!known) from = after;
  const auto reply = TRY(
      call({{"op", "windows"}, {"router_id", from.router_id}, {"after", from.number}, {"limit", limit}}));
  auto windows = TRY(list_of(reply, "windows", window_from_json));
  if (!windows.empty()) {
    const std::lock_guard lock(read_mutex_);
    read_ = {windows.back().router_id, windows.back().number};
  }
  return windows;
}

/// What those that stepped aside observed is older.
schema::Result<std::vector<Window>> RouterDriver::windows(const WindowPosition& after, std::size_t limit) {
  std::vector<Window> windows;
  for (const auto& peer : peers()) {
    auto others = peer->windows_here(after, limit - windows.size());
    if (!others) continue;  // it is asked again; one that hangs is killed, and what it had is told as lost
    std::ranges::move(*others, std::back_inserter(windows));
    if (windows.size() >= limit) return windows;
  }
  auto own = windows_here(after, limit - windows.size());
  if (!own && windows.empty()) return own;
  if (own) std::ranges::move(*own, std::back_inserter(windows));
  return windows;
}

schema::Result<void> RouterDriver::acknowledge(const WindowPosition& position) {
  return tell_all({{"op", "acknowledge"}, {"router_id", position.router_id}, {"number", position.number}});
}

/// A router of an older version keeps these windows until all below them are stored.
schema::Result<void> RouterDriver::acknowledge_models(const std::string& router_id,
                                                      const std::map<std::string, std::uint64_t>& models) {
  json request{{"op", "acknowledge"}, {"router_id", router_id}, {"number", 0}};
  request["models"] = models;
  return tell_all(request);
}

schema::Result<void> RouterDriver::tell_all(const json& request) {
  schema::Result<void> told;
  for (const auto& peer : peers()) {
    const auto answer = peer->call(request);
    if (!answer && !peer->is_gone(answer.error())) told = std::unexpected(answer.error());
  }
  TRY(call(request));
  return told;
}

schema::Result<HealthReport> RouterDriver::health(const WindowPosition& after) {
  return read_health(after, false);
}

schema::Result<HealthReport> RouterDriver::outages(const WindowPosition& after) {
  return read_health(after, true);
}

schema::Result<HealthReport> RouterDriver::read_health(const WindowPosition& after, bool outages_alone) {
  const auto reply = call({{"op", "health"},
                           {"router_id", after.router_id},
                           {"after", after.number},
                           {"outages_alone", outages_alone}});
  // A router of an older version, which is adopted all the same, does not know the question.
  const bool unknown = !reply && reply.error().code == schema::ErrorCode::invalid_argument;
  if (unknown) return HealthReport{};
  if (!reply) return std::unexpected(reply.error());
  const auto* report = base::member(*reply, "health");
  if (report == nullptr) return strange("health");
  return health_from_json(*report);
}

/// All write into the same folder.
schema::Result<std::string> RouterDriver::spool_path(const std::string& stage_key) {
  const json request = {{"op", "spool_path"}, {"stage_key", stage_key}};
  for (const auto& peer : peers()) {
    const auto complete = peer->call(request);
    if (!complete && complete.error().code == schema::ErrorCode::conflict)
      return std::unexpected(complete.error());
  }
  const auto reply = TRY(call(request));
  auto path = base::maybe_text_at(reply, "path");
  if (!path) return strange("path");
  return std::move(*path);
}

schema::Result<void> RouterDriver::drop_spool(const std::string& stage_key) {
  const json request = {{"op", "drop_spool"}, {"stage_key", stage_key}};
  for (const auto& peer : peers()) (void)peer->call(request);
  TRY(call(request));
  return {};
}

std::string RouterDriver::mark() {
  const auto router = info();
  return router ? via_mark(router->router_id) : std::string();
}

schema::Result<RouterInfo> RouterDriver::info() {
  const auto reply = TRY(call({{"op", "capabilities"}}));
  const auto pid = base::integer_at(reply, "pid", -1);
  const auto port = base::integer_at(reply, "port", -1);
  auto id = base::maybe_text_at(reply, "router_id");
  if (pid < 0 || port < 0 || !id) return strange("pid, port or router_id");
  const auto* draining = base::member(reply, "draining");
  const auto* retiring = base::member(reply, "retiring");
  // A router of an older version names no plane: it serves users itself.
  return RouterInfo{static_cast<int>(pid),
                    static_cast<std::uint16_t>(port),
                    std::move(*id),
                    draining != nullptr && *draining == true,
                    base::maybe_text_at(reply, "plane").value_or("router"),
                    base::text_at(reply, "plane_fault"),
                    retiring != nullptr && *retiring == true};
}

schema::Result<void> RouterDriver::shutdown() {
  TRY(call({{"op", "shutdown"}}));
  return {};
}

schema::Result<std::string> RouterDriver::retire() {
  const auto reply = TRY(call({{"op", "retire"}}));
  auto path = base::maybe_text_at(reply, "control");
  if (!path) return strange("control");
  // The connection is still that of the router that stepped aside.
  const std::lock_guard lock(mutex_);
  socket_.reset();
  return std::move(*path);
}

schema::Result<void> RouterDriver::resume() {
  TRY(call({{"op", "resume"}}));
  return {};
}

}  // namespace driftgate::route
