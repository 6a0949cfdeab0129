#include "daemon/route/worker/core.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/base/clock.hpp"
#include "daemon/limits/descriptors.hpp"
#include "daemon/route/relay/forward.hpp"

namespace driftgate::route {
namespace {

constexpr std::size_t kReservedDescriptors = 512;
constexpr std::chrono::seconds kFilesEvery{1};  ///< between two looks whether files of engines were replaced

/// Each client's request may take a connection to an engine; the rest is for kept ones, mirrors and files.
limits::ConnectionTable::Limits connection_limits(const RouterOptions& options) {
  const std::size_t reserve =
      kReservedDescriptors + std::size_t{options.threads} * options.mirror_concurrency;
  return {limits::connections_that_fit(options.max_connections, 2, reserve),
          options.max_connections_per_address, std::max(options.body_memory_bytes, options.max_body_bytes)};
}

HealthLimits health_limits(const RouterOptions& options) {
  HealthLimits limits;
  limits.total_ms = options.request_deadline_ms;
  limits.first_byte_ms = options.first_byte_ms;
  limits.first_byte_floor_ms = options.first_byte_floor_ms;
  limits.breaker.failures = options.breaker_failures;
  limits.breaker.probed = options.probe_ms > 0;
  return limits;
}

}  // namespace

Capabilities router_capabilities() {
  return Capabilities{.plane = "router",
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
                      .max_mirrored_body_bytes = kMaxMirroredBodyBytes};
}

Capabilities haproxy_capabilities() {
  auto can = router_capabilities();
  can.plane = "haproxy";
  // HAProxy passes answers on without reading them, and prompts too.
  can.token_times = false;
  can.prompt_length = false;
  can.engine_access = false;
  return can;
}

Capabilities gateway_capabilities(std::uint32_t watched_bp) {
  auto can = router_capabilities();
  can.plane = "gateway_api";
  can.watches_incumbent = watched_bp > 0;
  return can;
}

bool MirrorBudget::take(const std::string& stage_key, std::uint64_t tokens, std::uint64_t budget) {
  const std::lock_guard lock(mutex_);
  auto& used = used_[stage_key];
  const bool enough = used <= budget && tokens <= budget - used;
  if (enough) used += tokens;
  if (used_.size() > kMaxStages) {
    const auto first = used_.begin();
    used_.erase(first->first == stage_key ? std::next(first) : first);
  }
  return enough;
}

void OpenMirrors::add(const std::string& stage_key) {
  const std::lock_guard lock(mutex_);
  ++open_[stage_key];
}

void OpenMirrors::remove(const std::string& stage_key) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(stage_key);
  if (found != open_.end() && --found->second == 0) open_.erase(found);
  if (open_.empty()) none_.notify_all();
}

bool OpenMirrors::wait_for_none(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return none_.wait_until(lock, deadline, [this] { return open_.empty(); });
}

std::size_t OpenMirrors::count(const std::string& stage_key) const {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(stage_key);
  return found == open_.end() ? 0 : found->second;
}

RouterCore::RouterCore(RouterOptions router_options, std::string router_id)
    : options(std::move(router_options)),
      place(options.control_path),
      operations(parse_further_paths(options.further_paths).value_or(std::vector<std::string>{})),
      page(router_id, options.listen_fds > 0 ? options.listen_fds : options.threads),
      engines(health_limits(options)),
      routes(std::chrono::milliseconds(options.lease_ms), engines),
      ledger(std::move(router_id)),
      spool(options.spool_dir, options.spool_cap_bytes),
      connections(connection_limits(options)),
      mark(via_mark(ledger.router_id())) {
  ledger.count_on(page);
}

Capabilities RouterCore::capabilities() const {
  return plane ? plane->capabilities() : router_capabilities();
}

std::vector<ObservedRoute> RouterCore::observe() const {
  auto observed = routes.observe();
  return plane ? plane->held(std::move(observed)) : observed;
}

std::vector<ObservedRoute> RouterCore::observe(std::string_view model) const {
  auto observed = routes.observe(model);
  return plane ? plane->held(std::move(observed)) : observed;
}

std::string RouterCore::observed_version() const {
  return plane ? std::string() : fmt::format("{}-{}", ledger.router_id(), routes.changes());
}

void RouterCore::tick(RouteTable::Time now) {
  page.set_connections(static_cast<std::uint32_t>(connections.count()));
  const auto reverted = routes.end_expired_leases(now);
  for (const auto& model : reverted) {
    spdlog::warn(
        "router: the lease has expired after {} ms without a heartbeat; model {} goes to the incumbent",
        options.lease_ms, model);
  }
  if (plane && !reverted.empty()) plane->wake();
  if (const auto summary = connections.summary(now)) spdlog::warn("router: {}", *summary);
  if (now >= next_refresh_) {
    next_refresh_ = now + kFilesEvery;
    engines.refresh_files();
  }
  if (now < next_close_) return;
  // A retiring router closes windows only where it had requests: those of the next one say that telemetry
  // comes.
  const auto routed = retiring ? decltype(routes.stages()){} : routes.stages();
  if (next_close_ != RouteTable::Time{}) ledger.close_windows(routed, base::wall_clock_us(), now);
  next_close_ = now + std::chrono::milliseconds(options.window_ms);
}

}  // namespace driftgate::route
