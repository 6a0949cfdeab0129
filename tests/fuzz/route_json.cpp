#include "daemon/route/table/route_json.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "daemon/route/haproxy/log_line.hpp"
#include "daemon/route/haproxy/maps.hpp"
#include "daemon/route/haproxy/runtime.hpp"
#include "daemon/route/haproxy/servers.hpp"
#include "tests/fuzz/unit.hpp"

namespace {

using namespace driftgate;

/// What HAProxy answers and logs: users' headers are in its lines.
void read_as_haproxy(std::string_view bytes) {
  const auto secret = bytes.substr(0, bytes.find(' '));
  const auto line = route::haproxy::parse_log_line(bytes, secret);
  if (line)
    fuzz::require(route::haproxy::observation_of(*line).total_ms >= 0, "no request ends before it began");
  for (const auto& entry : route::haproxy::parse_map(bytes)) {
    const auto held = route::haproxy::read_route(entry);
    const auto safe = route::haproxy::without_candidate(entry);
    fuzz::require(held.has_value() == safe.has_value(),
                  "a route that is read can be kept without its candidate");
    if (safe)
      fuzz::require(route::haproxy::without_candidate(*safe) == safe, "nothing more can be taken away");
  }
  (void)route::haproxy::parse_servers(bytes);
  (void)route::haproxy::parse_statistics(bytes);
  (void)route::haproxy::parse_counters(bytes);
}

}  // namespace

/// What comes over the control socket, lines of the spool, and what HAProxy says.
void driftgate::fuzz::run(std::string_view bytes) {
  read_as_haproxy(bytes);
  std::string buffer(bytes);
  const auto frame = route::take_frame(buffer);
  if (frame && *frame) require((*frame)->size() <= route::kMaxFrameBytes, "a frame is within its limit");
  (void)route::pair_from_line(bytes);
  const auto json = route::parse_json(bytes);
  if (!json) return;
  (void)route::error_from_json(*json);
  (void)route::observed_from_json(*json);
  if (const auto window = route::window_from_json(*json)) {
    const auto text = route::window_to_text(*window);
    const auto again = route::parse_json(text);
    require(again.has_value() && route::window_from_json(*again).has_value(), "a window is read back");
  }
  if (const auto report = route::health_from_json(*json)) {
    const auto again = route::health_from_json(route::to_json(*report));
    require(again.has_value() && route::to_json(*again) == route::to_json(*report), "a report is read back");
  }
  if (const auto read = route::route_from_json(*json)) {
    const auto again = route::route_from_json(route::to_json(*read));
    require(again.has_value() && route::to_json(*again) == route::to_json(*read), "a route is read back");
  }
}
