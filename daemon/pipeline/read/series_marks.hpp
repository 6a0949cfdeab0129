#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "daemon/store/sqlite/sql.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

inline constexpr std::int64_t kMaxMarks = 1'000;

/// What happened to a promotion in a time (to_us exclusive), from the log, oldest first, the newest
/// kMaxMarks: shares in force, orders, approvals, waivers, holds, blocks and states, each as {"time_us",
/// "seq", "kind", "text", "actor"}. Only with `actors` is told who did it and which reasons people gave.
[[nodiscard]] schema::Result<nlohmann::json> series_marks(store::Reader& reader, const std::string& promotion,
                                                          std::optional<std::int64_t> from_us,
                                                          std::optional<std::int64_t> to_us, bool actors);

}  // namespace driftgate::pipeline
