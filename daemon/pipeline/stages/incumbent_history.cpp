#include "daemon/pipeline/stages/incumbent_history.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stages/canary/canary_scopes.hpp"

namespace driftgate::pipeline {

void IncumbentHistory::add(const route::Window& window, const route::ModelRoute& route) {
  const bool again = window.router_id == newest_.router_id && window.number <= newest_.number;
  if (again || route.incumbent.version.empty()) return;
  newest_ = {window.router_id, window.number};
  if (incumbent_ != route.incumbent.version) {
    incumbent_ = route.incumbent.version;
    failures_ = {};
    latencies_ = {};
  }
  const bool mixed =
      route.all_to_fallback || std::ranges::any_of(route.slices, &route::SliceWeight::to_fallback);
  if (mixed) return;
  for (const auto& seen : window.observations) {
    if (seen.candidate || seen.pinned || seen.outcome == route::Outcome::excluded) continue;
    const double share = 1 - static_cast<double>(seen.candidate_bp) / stages::kFullBp;
    const bool failed = seen.outcome == route::Outcome::failed;
    failures_.observe(seen.key_hash, seen.keyless, failed, seen.routed_us, share);
    if (!failed)
      latencies_.observe({seen.ttft_ms, seen.inter_token_ms, seen.total_ms}, seen.routed_us, share);
  }
}

std::string IncumbentHistory::text() const {
  return nlohmann::json{
      {"incumbent", incumbent_}, {"history", failures_.to_json()}, {"latencies", latencies_.to_json()}}
      .dump();
}

schema::Result<void> IncumbentHistory::adopt(std::string_view text, std::string_view incumbent) {
  try {
    const auto value = nlohmann::json::parse(text);
    if (value.at("incumbent").get<std::string>() != incumbent) return {};
    auto failures = stages::FailureHistory::from_json(value.at("history"));
    stages::LatencyHistory latencies;  // an earlier version kept none
    if (value.contains("latencies")) latencies = stages::LatencyHistory::from_json(value.at("latencies"));
    if (incumbent_ == incumbent && failures.covered_s() <= failures_.covered_s()) return {};
    incumbent_ = incumbent;
    failures_ = std::move(failures);
    latencies_ = std::move(latencies);
    return {};
  } catch (const nlohmann::json::exception& error) {
    return schema::fail(schema::ErrorCode::corrupt,
                        std::string("the stored history of the incumbent is damaged: ") + error.what());
  }
}

}  // namespace driftgate::pipeline
