#include "tests/night/night_plane.hpp"

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/route/table/route_json.hpp"
#include "schema/failf.hpp"

namespace driftgate::night {
namespace {

using nlohmann::json;
using schema::ErrorCode;

constexpr const char* kRouter = "night-plane";
constexpr std::size_t kRequests = 400;  ///< of a window
constexpr std::int64_t kWindowUs = 1'000'000;

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

schema::Result<std::unique_ptr<NightPlane>> NightPlane::open(const std::filesystem::path& folder) {
  std::unique_ptr<NightPlane> plane(new NightPlane(folder / "plane.json"));
  if (!std::filesystem::exists(plane->file_)) return plane;
  std::ifstream in(plane->file_);
  const json kept = json::parse(in, nullptr, false);
  if (!kept.is_object()) return schema::failf(ErrorCode::corrupt, "{} cannot be read", plane->file_.string());
  for (const json& item : kept["routes"]) {
    auto route = TRY(route::route_from_json(item));
    plane->routes_.insert_or_assign(route.model, route);
  }
  // Windows that nobody read went with the process: none follows them.
  plane->read_number_ = kept["read_number"].get<std::map<std::string, std::uint64_t>>();
  plane->last_number_ = plane->read_number_;
  plane->next_number_ = kept["next_number"].get<std::uint64_t>();
  plane->next_order_ = kept["next_order"].get<std::uint64_t>();
  return plane;
}

/// Whole or not at all: the process may be killed at any instant.
void NightPlane::save() const {
  json routes = json::array();
  for (const auto& [model, route] : routes_) routes.push_back(route::to_json(route));
  const auto aside = file_.string() + ".new";
  std::ofstream(aside) << json{{"routes", std::move(routes)},
                               {"read_number", read_number_},
                               {"next_number", next_number_},
                               {"next_order", next_order_}};
  std::filesystem::rename(aside, file_);
}

route::Capabilities NightPlane::capabilities() const {
  return {.plane = "night",
          .basis_points = true,
          .sticky_monotone = true,
          .slices = true,
          .mirror_response = true,
          .mirror_isolated = true,
          .read_back = true,
          .atomic = true,
          .per_arm_latency = true,
          .token_times = true,
          .prompt_length = true,
          .watches_incumbent = true,
          .engine_access = true,
          .max_mirrored_body_bytes = 1U << 20};
}

schema::Result<void> NightPlane::apply(const route::ModelRoute& route) {
  const std::lock_guard guard(mutex_);
  const auto held = routes_.find(route.model);
  if (held != routes_.end() && held->second.epoch > route.epoch)
    return schema::failf(ErrorCode::conflict, "the plane holds a newer epoch of {}", route.model);
  routes_.insert_or_assign(route.model, route);
  save();
  return {};
}

schema::Result<std::vector<route::ObservedRoute>> NightPlane::observe() {
  const std::lock_guard guard(mutex_);
  std::vector<route::ObservedRoute> all;
  for (const auto& [model, route] : routes_) all.push_back({route, false});
  return all;
}

schema::Result<std::vector<route::Window>> NightPlane::windows(const route::WindowPosition& after,
                                                               std::size_t limit) {
  const std::lock_guard guard(mutex_);
  std::vector<route::Window> found;
  for (const auto& window : closed_) {
    const bool read = after.router_id == kRouter && window.number <= after.number;
    if (!read && found.size() < limit) found.push_back(window);
  }
  return found;
}

schema::Result<void> NightPlane::acknowledge(const route::WindowPosition& position) {
  const std::lock_guard guard(mutex_);
  for (const auto& window : closed_)
    if (window.number <= position.number) read_number_[window.model] = window.number;
  std::erase_if(closed_, [&](const route::Window& window) { return window.number <= position.number; });
  save();
  return {};
}

schema::Result<route::HealthReport> NightPlane::health(const route::WindowPosition&) {
  route::HealthReport report;
  report.router_id = kRouter;
  return report;
}

schema::Result<std::string> NightPlane::spool_path(const std::string& stage_key) {
  return schema::failf(ErrorCode::not_found, "no pairs of {} are kept", stage_key);
}

void NightPlane::serve(std::int64_t now_us, const std::vector<std::string>& failing_models) {
  const std::lock_guard guard(mutex_);
  for (const auto& [model, route] : routes_) {
    if (!route.candidate) continue;
    const bool fails = std::ranges::find(failing_models, model) != failing_models.end();
    route::Window window;
    window.number = next_number_++;
    window.previous = std::exchange(last_number_[model], window.number);
    window.router_id = kRouter;
    window.model = model;
    window.stage_key = route.stage_key;
    window.start_us = now_us - kWindowUs;
    window.end_us = now_us;
    for (std::size_t i = 0; i < kRequests; ++i) {
      route::Observation seen;
      seen.order = next_order_++;
      seen.key_hash = mixed(seen.order);
      seen.slice = "language=en";
      seen.candidate_bp = route.candidate_bp;
      seen.candidate = seen.key_hash % route::kFullShareBp < route.candidate_bp;
      seen.routed_us = now_us;
      seen.ttft_ms = 5;
      seen.inter_token_ms = 1;
      seen.total_ms = 20;
      if (seen.candidate && fails && i % 3 == 0) {
        seen.outcome = route::Outcome::failed;
        seen.reason = "status_500";
      }
      window.observations.push_back(seen);
    }
    closed_.push_back(std::move(window));
  }
  save();
}

}  // namespace driftgate::night
