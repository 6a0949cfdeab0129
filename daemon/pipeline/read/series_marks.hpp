#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "daemon/store/sqlite/sql.hpp"
#include "schema/error.hpp"

namespace driftgate::pipeline {

inline constexpr std::int64_t kMaxMarks = 1'000;

/// Which entries are marks.
struct MarkFilter {
  std::string promotion{};
  std::optional<std::int64_t> from_us{}, to_us{};  ///< to_us exclusive
  std::int64_t most = kMaxMarks;                   ///< the newest
  bool actors = false;                             ///< tell who did it and which reasons people gave
};

/// What happened to a promotion, from the log, oldest first: shares in force, orders, approvals, waivers,
/// holds, blocks and states, each as {"time_us", "seq", "kind", "text", "actor"}.
[[nodiscard]] schema::Result<nlohmann::json> series_marks(store::Reader& reader, const MarkFilter& wanted);

}  // namespace driftgate::pipeline
