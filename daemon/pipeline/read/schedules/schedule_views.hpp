#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "daemon/pipeline/service.hpp"
#include "daemon/store/registry/schedules.hpp"

namespace driftgate::pipeline {

/// Where promotions stand, or how they ended, by id: {"state", "stage", "traffic", "created_us", "ended_us" |
/// null, "why", "needs": [{"action", "scope", "text"}]}. Ids without a promotion are left out.
using Standings = std::map<std::string, nlohmann::json, std::less<>>;
[[nodiscard]] schema::Result<Standings> standings_of(store::Reader& reader,
                                                     const std::vector<store::ScheduleFireRow>& fires,
                                                     std::int64_t now_us);

/// {"fire_us", "outcome", "why", "reason" | null, "revision", "missed", "promotion" | null, "evidence",
/// "standing": of its promotion | null}
[[nodiscard]] nlohmann::json fire_json(const store::ScheduleFireRow& fire, const Standings& standings);

/// A schedule as ScheduleAdmin::get describes it; its fires have a standing when `with_standings`.
[[nodiscard]] schema::Result<nlohmann::json> schedule_json(store::Reader& reader,
                                                           const store::ScheduleRow& row, std::int64_t now_us,
                                                           bool with_standings);

}  // namespace driftgate::pipeline
