#include "daemon/pipeline/stages/incumbent_history.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace driftgate::pipeline {

void IncumbentHistory::add(const route::Window& window, const route::ModelRoute& route) {
  const bool again = window.router_id == newest_.router_id && window.number <= newest_.number;
  if (again || route.incumbent.version.empty()) return;
  newest_ = {window.router_id, window.number};
  if (incumbent_ != route.incumbent.version) {
    incumbent_ = route.incumbent.version;
    history_ = {};
  }
  const bool mixed =
      route.all_to_fallback || std::ranges::any_of(route.slices, &route::SliceWeight::to_fallback);
  if (mixed) return;
  for (const auto& seen : window.observations) {
    if (seen.candidate || seen.pinned || seen.outcome == route::Outcome::excluded) continue;
    history_.observe(seen.key_hash, seen.keyless, seen.outcome == route::Outcome::failed, seen.routed_us);
  }
}

std::string IncumbentHistory::text() const {
  return nlohmann::json{{"incumbent", incumbent_}, {"history", history_.to_json()}}.dump();
}

schema::Result<void> IncumbentHistory::adopt(std::string_view text, std::string_view incumbent) {
  try {
    const auto value = nlohmann::json::parse(text);
    if (value.at("incumbent").get<std::string>() != incumbent) return {};
    auto history = stages::FailureHistory::from_json(value.at("history"));
    if (incumbent_ == incumbent && history.covered_s() <= history_.covered_s()) return {};
    incumbent_ = incumbent;
    history_ = std::move(history);
    return {};
  } catch (const nlohmann::json::exception& error) {
    return schema::fail(schema::ErrorCode::corrupt,
                        std::string("the stored history of the incumbent is damaged: ") + error.what());
  }
}

}  // namespace driftgate::pipeline
