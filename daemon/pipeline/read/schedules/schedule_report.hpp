#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// Most fire times of a report, and its longest time.
inline constexpr std::size_t kMaxReported = 20'000;
inline constexpr std::int64_t kMaxReportUs = 31LL * 86'400 * 1'000'000;

struct ReportRange {
  std::int64_t since_us = 0, until_us = 0;  ///< fire times from the one up to the other, without it
  std::string model{};                      ///< only of this one; empty: all
};

/// What came of each fire time of each schedule in a range of time, of one snapshot:
/// {"since_us", "until_us", "model" | null, "totals": {"times", "fired", "skipped", "pending", "unrecorded",
/// "skipped_by": {WHY: n}, "promotions": {STATE: n}, "need_people"}, "items": [{"schedule", "model", "local",
/// "fire_us", "outcome", "why", "reason" | null, "revision", "promotion" | null, "evidence" | null,
/// "standing": {…} | null, "duration_ms" | null, "needs": [{"action", "scope", "text"}]}]} by time and name.
///
/// The fire times are those of the expressions that the log says were in force, and those that are recorded.
/// The outcome of one that is not recorded is "pending" when it is still to be decided, else "unrecorded".
/// One that was missed with a later one is "skipped" for "misfire". A schedule whose expression or zone
/// cannot be read any more has one item, "unrecorded", that says so. `invalid_argument` for a range that
/// makes no sense, `limit_exceeded` for one with more than kMaxReported fire times.
[[nodiscard]] schema::Result<nlohmann::json> schedule_report(store::Store& store, const ReportRange& range,
                                                             std::int64_t now_us);

/// A report for a message: {"since_us", "until_us", "totals", "items": those that people should look at, at
/// most `limit`, "more": how many further ones there are}. What fired and succeeded, or is under way and
/// waits for nobody, and what a blackout or a promotion in progress kept from starting is in the totals
/// alone.
[[nodiscard]] nlohmann::json report_digest(const nlohmann::json& report, std::size_t limit);

struct DigestRange {
  std::int64_t since_us = 0, until_us = 0;
  std::int64_t settled_since_us = 0;  ///< when the digest before was made
};

/// The digest of a report of all models, with "earlier": {"totals", "items", "more"} of the fire times before
/// the range that were decided, or whose promotion ended, after the digest before, or whose promotion goes
/// on. Of a range with more fire times than a report may have it covers the newest part: "left_out_since_us"
/// is then where the range began, else null.
[[nodiscard]] schema::Result<nlohmann::json> schedule_digest(store::Store& store, const DigestRange& range,
                                                             std::int64_t now_us, std::size_t limit);

}  // namespace driftgate::pipeline
