#include "daemon/route/control/control.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "daemon/base/json_members.hpp"
#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/route/table/access_file.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/table/state_file.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

using nlohmann::json;
using Answer = schema::Result<std::string>;

constexpr std::size_t kMaxListBytes = kMaxFrameBytes * 3 / 4;  // of one answer, its first element aside

std::string ok() {
  return R"({"ok":true})";
}

std::string ok_with(json members) {
  members["ok"] = true;
  return dumped(members);
}

std::unexpected<schema::Error> bad(std::string_view what) {
  return schema::failf(schema::ErrorCode::invalid_argument, "control request: {}", what);
}

std::set<std::string> engines_of(const ModelRoute& route) {
  std::set<std::string> urls{route.incumbent.url};
  for (const auto& arm : {route.candidate, route.fallback})
    if (arm) urls.insert(arm->url);
  return urls;
}

void set_access(RouterCore& core, const std::set<std::string>& urls, const AccessByUrl& access) {
  for (const auto& url : urls) {
    const auto found = access.find(url);
    core.engines.set_access(url, found == access.end() ? base::EngineAccess{} : found->second);
  }
}

/// What the route's engines ask for, where the daemon says it; a route of a plane that cannot carry it is
/// refused.
schema::Result<void> take_access(RouterCore& core, const json& request, const std::set<std::string>& urls) {
  const auto* told = base::member(request, "access");
  const auto access =
      TRY(told == nullptr ? schema::Result<AccessByUrl>(core.engines.access()) : access_from_json(*told));
  const auto beyond_plane = [&](const std::string& url) {
    const auto endpoint = parse_engine_url(url);
    return access.contains(url) || (endpoint && (endpoint->tls || !endpoint->prefix.empty()));
  };
  if (core.plane_places() && std::ranges::any_of(urls, beyond_plane))
    return schema::failf(
        schema::ErrorCode::unsupported,
        "HAProxy cannot reach an engine over https, under a path or with a key: set data_plane to "
        "router");
  if (told != nullptr) set_access(core, urls, access);
  return {};
}

/// Keeps what the engines of the routes in force ask for.
schema::Result<void> keep_access(RouterCore& core) {
  std::set<std::string> urls;
  for (const auto& route : core.routes.held()) urls.merge(engines_of(route));
  core.engines.keep_access(urls);
  const auto access = core.engines.access();
  const auto path = access_path(core.options);
  std::error_code ignored;
  if (access.empty() && !std::filesystem::exists(path, ignored)) return {};
  return save_access(path, access);
}

/// Keeps the routes for the next router. The files are those of the router on the control path.
schema::Result<void> keep_files(RouterCore& core) {
  if (core.retiring) return {};
  TRY(save_state(core.options.state_path, core.routes.held()));
  return keep_access(core);
}

/// Puts one route into the table, without keeping it; its model.
schema::Result<std::string> put_in_table(RouterCore& core, const json& request) {
  if (!request.contains("route")) return bad("missing 'route'");
  const auto route = TRY(route_from_json(request["route"]));
  TRY(core.routes.check(route));  // a daemon that is fenced off changes nothing of what engines are shown
  const auto urls = engines_of(route);
  TRY(take_access(core, request, urls));
  // Their files are read before requests wait for the table of routes.
  std::vector<std::shared_ptr<Engine>> engines;
  for (const auto& url : urls) engines.push_back(core.engines.get(url));
  TRY(core.routes.apply(route, RouteTable::Time::clock::now()));
  spdlog::info("router: model {} epoch {} revision {} candidate_bp {} mirror_bp {} stage {}", route.model,
               route.epoch, route.revision, route.candidate_bp, route.mirror_bp, route.stage_key);
  return route.model;
}

/// Each route in force before they are kept: a share taken away must not wait for a disk. A plane is waited
/// for once for all of them, as long as for one: the control socket answers nobody else meanwhile, and who does
/// not answer is taken for hung. What the plane holds of the others is told by `observe`.
schema::Result<void> apply_each(RouterCore& core, std::span<const json> requests) {
  schema::Result<void> applied;
  const auto before = core.routes.changes();
  std::string newest;
  for (const auto& request : requests) {
    auto model = put_in_table(core, request);
    if (model)
      newest = std::move(*model);
    else if (applied)
      applied = std::unexpected(std::move(model.error()));
  }
  if (core.plane && !newest.empty()) {
    auto settled = core.plane->settle(newest);
    if (applied) applied = std::move(settled);
  }
  if (core.routes.changes() == before) return applied;  // all were refused
  const auto kept = keep_files(core);
  if (!applied || kept) return applied;
  return schema::wrap(kept.error(),
                      "the route is in force, but it would not survive a restart of the router");
}

Answer apply(RouterCore& core, const json& request) {
  TRY(apply_each(core, {&request, 1}));
  return ok();
}

/// Many routes that are kept once; the first refusal is the answer, and the others are in force.
Answer apply_all(RouterCore& core, const json& request) {
  const auto* routes = base::member(request, "routes");
  if (routes == nullptr || !routes->is_array()) return bad("missing 'routes'");
  const std::vector<json> all(routes->begin(), routes->end());
  TRY(apply_each(core, all));
  return ok();
}

/// Of one model; or of all, in pages, and nothing of them to who names the version that still holds.
Answer observe(RouterCore& core, const json& request) {
  const auto version = core.observed_version();
  if (!version.empty() && base::maybe_text_at(request, "unless") == version)
    return ok_with({{"unchanged", true}});
  const auto model = base::maybe_text_at(request, "model");
  const auto after = base::text_at(request, "after");
  auto routes = json::array();
  json answer{{"version", version}};
  std::size_t bytes = 0;
  std::string last;
  for (const auto& observed : model ? core.observe(*model) : core.observe()) {
    if (!after.empty() && observed.route.model <= after) continue;
    auto one = to_json(observed);
    bytes += dumped(one).size() + 1;
    if (!routes.empty() && bytes > kMaxListBytes) {
      answer["next"] = last;
      break;
    }
    last = observed.route.model;
    routes.push_back(std::move(one));
  }
  answer["routes"] = std::move(routes);
  return ok_with(std::move(answer));
}

/// True when the caller's window number is one of this process.
bool own_number(const RouterCore& core, const json& request) {
  return base::maybe_text_at(request, "router_id") == core.ledger.router_id();
}

std::optional<std::uint64_t> unsigned_at(const json& request, const char* name) {
  const auto* found = base::member(request, name);
  return found != nullptr && found->is_number_unsigned() ? std::optional(found->get<std::uint64_t>())
                                                         : std::nullopt;
}

Answer windows(RouterCore& core, const json& request) {
  const auto after = unsigned_at(request, "after");
  const auto limit = unsigned_at(request, "limit");
  if (!after || !limit) return bad("missing 'after' or 'limit'");
  std::string text = R"({"ok":true,"windows":[)";
  const auto empty = text.size();
  for (const auto& window : core.ledger.windows(own_number(core, request) ? *after : 0, *limit)) {
    const auto one = window_to_text(*window);
    if (text.size() > empty) {
      if (text.size() + one.size() > kMaxListBytes) break;
      text += ',';
    }
    text += one;
  }
  return text + "]}";
}

/// Windows of all models up to `number`, and further ones of single models.
Answer acknowledge(RouterCore& core, const json& request) {
  const auto number = unsigned_at(request, "number");
  if (!number) return bad("missing 'number'");
  if (!own_number(core, request)) return ok();
  core.ledger.acknowledge(*number);
  const auto* models = base::member(request, "models");
  if (models == nullptr || !models->is_object()) return ok();
  for (const auto& [model, newest] : models->items()) {
    if (newest.is_number_unsigned()) core.ledger.acknowledge(model, newest.get<std::uint64_t>());
  }
  return ok();
}

/// How the engines are, and what their breakers did behind `after`.
Answer health(RouterCore& core, const json& request) {
  const auto after = unsigned_at(request, "after");
  if (!after) return bad("missing 'after'");
  const auto* alone = base::member(request, "outages_alone");
  const auto report = core.engines.report(core.ledger.router_id(), own_number(core, request) ? *after : 0,
                                          RouteTable::Time::clock::now(), alone != nullptr && *alone == true);
  return ok_with({{"health", to_json(report)}});
}

Answer spool(RouterCore& core, const json& request, bool drop) {
  const auto stage_key = base::maybe_text_at(request, "stage_key");
  if (!stage_key) return bad("missing 'stage_key'");
  if (drop) {
    TRY(core.spool.drop(*stage_key));
    return ok();
  }
  if (const auto open = core.mirrors.count(*stage_key); open > 0)
    return schema::failf(schema::ErrorCode::conflict,
                         "{} mirrored requests of {} are still in flight; try again", open, *stage_key);
  const auto path = TRY(core.spool.path(*stage_key));
  return ok_with({{"path", path}});
}

Answer capabilities(const RouterCore& core) {
  const auto can = core.capabilities();
  return ok_with({{"capabilities", to_json(can)},
                  {"plane", can.plane},
                  {"plane_fault", core.plane ? core.plane->fault() : std::string()},
                  {"pid", static_cast<std::uint64_t>(::getpid())},
                  {"port", core.port.load()},
                  {"draining", core.draining.load()},
                  {"retiring", core.retiring.load()},
                  {"connections", core.connections.count()},
                  {"router_id", core.ledger.router_id()}});
}

/// Copies of the listening sockets, so that a daemon that did not start this router holds them as well.
Answer listeners(const RouterCore& core, ControlEffects& effects) {
  auto copies = TRY(core.listeners.copies());
  effects.descriptors = std::move(copies);
  return ok_with({{"listeners", effects.descriptors.size()}});
}

/// Another router is about to follow on the same sockets: makes room for it on the control path. Both serve
/// until this one is told to end.
Answer retire(RouterCore& core, ControlEffects& effects) {
  if (core.plane)
    return schema::fail(
        schema::ErrorCode::unsupported,
        "a router that steers HAProxy or a Gateway cannot serve beside another one: stop it, and the next "
        "one starts when it is gone");
  if (core.draining) return schema::fail(schema::ErrorCode::conflict, "this router is ending already");
  const auto aside = TRY(core.place.step_aside());
  core.retiring = true;
  effects.disconnect = true;
  return ok_with({{"control", aside}});
}

/// Nobody follows after all.
Answer resume(RouterCore& core, ControlEffects& effects) {
  if (core.draining) return schema::fail(schema::ErrorCode::conflict, "this router is ending already");
  TRY(core.place.step_back());
  core.retiring = false;
  effects.disconnect = true;
  TRY(keep_files(core));
  return ok();
}

/// Requests that describe the process or change what it is there for.
std::optional<Answer> dispatch_process(RouterCore& core, std::string_view op, ControlEffects& effects) {
  if (op == "capabilities") return capabilities(core);
  if (op == "listeners") return listeners(core, effects);
  if (op == "retire") return retire(core, effects);
  if (op == "resume") return resume(core, effects);
  if (op != "shutdown") return std::nullopt;
  core.draining = true;  // before the answer: nobody adopts a router that was told to end
  effects.stop = true;
  return ok();
}

Answer dispatch(RouterCore& core, const json& request, ControlEffects& effects) {
  const auto op = base::maybe_text_at(request, "op");
  if (!op) return bad("missing 'op'");
  if (*op == "apply") return apply(core, request);
  if (*op == "apply_all") return apply_all(core, request);
  if (*op == "observe") return observe(core, request);
  if (*op == "heartbeat") {
    core.routes.heartbeat(RouteTable::Time::clock::now());
    return ok();
  }
  if (*op == "windows") return windows(core, request);
  if (*op == "acknowledge") return acknowledge(core, request);
  if (*op == "health") return health(core, request);
  if (*op == "spool_path") return spool(core, request, false);
  if (*op == "drop_spool") return spool(core, request, true);
  if (auto answer = dispatch_process(core, *op, effects)) return std::move(*answer);
  return bad(fmt::format("unknown op '{}'", *op));
}

}  // namespace

std::string answer_control(RouterCore& core, std::string_view request, ControlEffects& effects) {
  const auto json_request = parse_json(request);
  auto answer =
      json_request ? dispatch(core, *json_request, effects) : Answer(std::unexpected(json_request.error()));
  if (answer && answer->size() > kMaxFrameBytes) {
    answer = schema::fail(schema::ErrorCode::limit_exceeded, "the answer is larger than a frame may be");
  }
  if (answer) return std::move(*answer);
  return dumped({{"ok", false}, {"error", to_json(answer.error())}});
}

}  // namespace driftgate::route
