#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/store/promotions/stage_runs.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// The most points that are kept of one run, besides its newest. When there would be more, every second one
/// is dropped, and from then on as many fewer are kept.
inline constexpr std::int64_t kMaxLivePoints = 512;

/// Requests of users by arm, and those of them that failed.
struct LiveCounts {
  std::int64_t requests_candidate = 0, requests_incumbent = 0;
  std::int64_t failures_candidate = 0, failures_incumbent = 0;
  bool operator==(const LiveCounts&) const = default;
};

/// What one telemetry window, or one decision without a window, adds to the series of its run.
struct LivePoint {
  std::int64_t time_us = 0;
  LiveCounts counts{};    ///< since the point before
  std::string clauses{};  ///< JSON: the tests that `body` has figures of; "" = none
  std::string body{};     ///< JSON
};

/// Adds a point to the run's series; the run must exist. Costs a few small statements, whatever is kept
/// already.
Result<void> add_live_point(Tx& tx, const StageKey& run, const LivePoint& point);

/// A point that was kept.
struct LivePointRow {
  std::int64_t number = 0;  ///< of the point within the run, from 0, those that were dropped included
  std::int64_t time_us = 0;
  LiveCounts counts{};    ///< since the run began
  std::string clauses{};  ///< key of LiveClausesRow; "" = none
  std::string body{};
  bool operator==(const LivePointRow&) const = default;
};

struct LiveClausesRow {
  std::string key{};
  std::string list{};
  bool operator==(const LiveClausesRow&) const = default;
};

/// Everything that is kept of one run.
struct LiveSeries {
  std::int64_t stride = 1;
  std::vector<LivePointRow> points{};     ///< oldest first
  std::vector<LiveClausesRow> clauses{};  ///< in the order in which they were first used
};

/// Empty for a run of which nothing is kept. Of the points only the `newest` ones.
Result<LiveSeries> find_live_series(Reader& reader, const StageKey& run,
                                    std::int64_t newest = kMaxLivePoints + 1);

}  // namespace driftgate::store
