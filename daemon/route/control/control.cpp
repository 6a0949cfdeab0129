#include "daemon/route/control/control.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/base/json_members.hpp"
#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/table/state_file.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

using nlohmann::json;
using Answer = schema::Result<std::string>;

constexpr std::size_t kMaxWindowsBytes = kMaxFrameBytes * 3 / 4;  // of one answer, the first window aside

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

Answer apply(RouterCore& core, const json& request) {
  if (!request.contains("route")) return bad("missing 'route'");
  const auto route = TRY(route_from_json(request["route"]));
  TRY(core.routes.apply(route, RouteTable::Time::clock::now()));
  spdlog::info("router: model {} epoch {} revision {} candidate_bp {} mirror_bp {} stage {}", route.model,
               route.epoch, route.revision, route.candidate_bp, route.mirror_bp, route.stage_key);
  // In force before it is kept: a share taken away must not wait for a disk.
  auto settled = core.plane ? core.plane->settle(route.model) : schema::Result<void>{};
  // The file is that of the router on the control path.
  auto kept =
      core.retiring ? schema::Result<void>{} : save_state(core.options.state_path, core.routes.held());
  if (!settled) return std::unexpected(settled.error());
  if (!kept)
    return schema::wrap(kept.error(),
                        "the route is in force, but it would not survive a restart of the router");
  return ok();
}

Answer observe(RouterCore& core) {
  auto routes = json::array();
  for (const auto& observed : core.observe()) routes.push_back(to_json(observed));
  return ok_with({{"routes", std::move(routes)}});
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
      if (text.size() + one.size() > kMaxWindowsBytes) break;
      text += ',';
    }
    text += one;
  }
  return text + "]}";
}

Answer acknowledge(RouterCore& core, const json& request) {
  const auto number = unsigned_at(request, "number");
  if (!number) return bad("missing 'number'");
  if (own_number(core, request)) core.ledger.acknowledge(*number);
  return ok();
}

/// How the engines are, and what their breakers did behind `after`.
Answer health(RouterCore& core, const json& request) {
  const auto after = unsigned_at(request, "after");
  if (!after) return bad("missing 'after'");
  const auto report = core.engines.report(core.ledger.router_id(), own_number(core, request) ? *after : 0,
                                          RouteTable::Time::clock::now());
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
        "a router that steers HAProxy cannot serve beside another one: stop it, and the next one "
        "starts when it is gone");
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
  auto kept = save_state(core.options.state_path, core.routes.held());
  if (!kept) return std::unexpected(kept.error());
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
  if (*op == "observe") return observe(core);
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
