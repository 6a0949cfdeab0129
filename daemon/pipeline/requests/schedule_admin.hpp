#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/requests/request.hpp"
#include "daemon/pipeline/service.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// A schedule as a person writes it.
struct ScheduleRequest {
  std::string name;  ///< 1 … 64 of [A-Za-z0-9._-]
  std::string cron, zone = "UTC";
  std::string request;              ///< JSON of a promotion as it is asked for (recipe.hpp)
  std::string misfire = "skip";     ///< or "run_once"
  std::int64_t grace_s = 3'600;     ///< of run_once
  std::string if_running = "skip";  ///< or "queue"
};
inline constexpr std::int64_t kMaxGraceSeconds = 7 * 86'400;
inline constexpr std::size_t kMaxSchedules = 1'000;
inline constexpr std::size_t kMaxNextFires = 100;

/// Reads {"name", "cron", "timezone"?, "promotion": {…}, "misfire"?, "grace_s"?, "if_running"?}; the name may
/// be left out where the path has it. Unknown members are refused; `invalid_document` with the pointer.
[[nodiscard]] schema::Result<ScheduleRequest> parse_schedule_request(std::string_view json,
                                                                     const std::string& name_in_path);

/// Where people keep schedules; each change is an entry, in the same transaction. Safe from any thread.
/// `revision` is the ETag that was read: `conflict` when the schedule was changed since.
class ScheduleAdmin {
 public:
  virtual ~ScheduleAdmin() = default;
  /// The view has "warnings" too: why the request would not be accepted now. The error of one that never can
  /// be.
  virtual schema::Result<View> create(const std::string& actor, const ScheduleRequest& request) = 0;
  /// The same.
  virtual schema::Result<View> replace(const std::string& actor, const ScheduleRequest& request,
                                       std::uint64_t revision) = 0;
  virtual schema::Result<View> set_paused(const std::string& actor, const std::string& name, bool paused,
                                          std::uint64_t revision) = 0;
  virtual schema::Result<void> remove(const std::string& actor, const std::string& name,
                                      std::uint64_t revision) = 0;
  /// {"name", "cron", "timezone", "promotion", "misfire", "grace_s", "if_running", "paused", "owner",
  /// "created_us", "updated_us", "revision", "next_us" | null, "fires": [fire_json of schedule_views.hpp]}:
  /// those since it was made; View::seq is the revision.
  virtual schema::Result<View> get(const std::string& name) = 0;
  /// As `get`; its promotions have no standing.
  virtual schema::Result<Page> list(const PageRequest& page) = 0;
  /// {"items": [{"fire_us", "local"}]} of the next fire times.
  virtual schema::Result<View> next(const std::string& name, std::size_t count) = 0;
  /// What came of each fire time in a range (schedule_report.hpp): until now, and of the 24 hours before its
  /// end, as far as they are not given. `model` may be empty.
  virtual schema::Result<View> report(std::optional<std::int64_t> since_us,
                                      std::optional<std::int64_t> until_us, const std::string& model) = 0;
};

/// Tries the request of a schedule that is made or changed: why it would not be accepted now, or the error of
/// one that never can be (Pipeline::try_request).
using ScheduleTrial = std::function<schema::Result<std::vector<std::string>>(const std::string& actor,
                                                                             const PromotionRequest&)>;

/// Over the daemon's store, which must outlive it; `now_us` is the pipeline's clock. Without a trial requests
/// are only parsed.
[[nodiscard]] std::unique_ptr<ScheduleAdmin> stored_schedules(store::Store& store,
                                                              std::function<std::int64_t()> now_us,
                                                              ScheduleTrial trial = {});

}  // namespace driftgate::pipeline
