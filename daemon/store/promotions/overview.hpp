#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/registry/models.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "daemon/store/sqlite/sql.hpp"

// What one screen about all models shows, each by one statement whatever the number of models.
namespace driftgate::store {

/// Models by name, after `after`, whose name holds `text` (in lower case; nothing: all), at most `limit`.
Result<std::vector<ModelRow>> models_by_name(Reader& reader, std::string_view after,
                                             const std::optional<std::string>& text, std::int64_t limit);
/// Of the models: every promotion that has not ended, oldest first.
Result<std::vector<PromotionRow>> open_promotions_of(Reader& reader, std::span<const std::string> models);
/// Of the models: the promotion that ended last.
Result<std::vector<PromotionRow>> last_ended_of(Reader& reader, std::span<const std::string> models);
/// Of the models: their schedules, by name.
Result<std::vector<ScheduleRow>> schedules_of(Reader& reader, std::span<const std::string> models);
/// Of the models' schedules: the newest fire time.
Result<std::vector<ScheduleFireRow>> last_fires_of(Reader& reader, std::span<const std::string> models);

/// The newest guard of a model in short.
struct GuardMark {
  std::string model{};
  bool armed = false;
  std::int64_t alarms = 0;  ///< raised so far
  bool operator==(const GuardMark&) const = default;
};
Result<std::vector<GuardMark>> guard_marks_of(Reader& reader, std::span<const std::string> models);

/// Of the whole daemon.
struct OverviewCounts {
  std::int64_t models = 0;
  std::int64_t open = 0;         ///< promotions that have not ended
  std::int64_t need_people = 0;  ///< promotions that wait for people
  std::int64_t holds = 0;        ///< models on hold
  std::int64_t alarms = 0;       ///< armed guards that have raised an alarm
  bool operator==(const OverviewCounts&) const = default;
};
Result<OverviewCounts> overview_counts(Reader& reader);

}  // namespace driftgate::store
