#include "daemon/route/table/route_json.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/telemetry_json.hpp"
#include "tests/fuzz/unit.hpp"

/// What comes over the control socket, and lines of the spool.
void driftgate::fuzz::run(std::string_view bytes) {
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
