#include "daemon/pipeline/requests/scheduled_reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/read/schedules/schedule_report.hpp"
#include "daemon/schedule/misfire.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kLookEveryUs = kSecond;
constexpr std::int64_t kRetryUs = 60 * kSecond;
constexpr std::size_t kToldItems = 50;
constexpr std::int64_t kLongestWaitUs = 3'600 * kSecond;  ///< for fire times that are being decided

}  // namespace

schema::Result<void> ScheduledReports::read_setting() {
  const auto& text = context_.world.settings.report;
  if (text.empty()) return {};
  auto parsed = schedule::parse_recurring_time(text);
  if (!parsed) return schema::wrap(parsed.error(), "the setting schedule.report");
  when_ = std::move(*parsed);
  return {};
}

void ScheduledReports::put_due() {
  if (!when_ || making_ || context_.now() < next_look_us_) return;
  next_look_us_ = context_.now() + kLookEveryUs;
  const auto looked = look();
  if (looked) return;
  next_look_us_ = context_.now() + kRetryUs;
  context_.warn(fmt::format("the report of the schedules is tried again: {}", looked.error().describe()));
}

schema::Result<void> ScheduledReports::look() {
  const auto now_us = context_.now();
  if (!last_) {
    last_ = TRY(look_up(context_.world.store, store::last_schedule_report));
    // Reports are due from the first start with this setting on.
    if (!last_) {
      TRY(context_.commit_rows("begin reports", [&](store::Tx& tx, Entries&) {
        return store::insert_schedule_report(tx, now_us, now_us, now_us);
      }));
      last_ = store::ScheduleReportRow{now_us, now_us};
    }
  }
  const auto next = schedule::next_fire(when_->cron, when_->zone, last_->report_us / kSecond);
  if (!next || *next * kSecond > now_us) return {};
  const auto due =
      schedule::decide_due(when_->cron, when_->zone, *next, now_us / kSecond, schedule::Misfire::skip, 0);
  const auto waits = TRY(waits_for_fires(due.fire_s * kSecond));
  if (!waits) put_report(due.fire_s * kSecond, *last_);
  return {};
}

/// Whether a fire time before the report is still to be decided: the daemon may have just begun to look at
/// what it missed, or hash a checkpoint. What takes longer than an hour is told by the next report.
schema::Result<bool> ScheduledReports::waits_for_fires(std::int64_t report_us) {
  const auto due = TRY(look_up(context_.world.store, store::due_schedules, report_us - 1, 1));
  if (due.empty()) return false;
  if (!waits_since_us_) waits_since_us_ = context_.now();
  return context_.now() - *waits_since_us_ < kLongestWaitUs;
}

void ScheduledReports::put_report(std::int64_t report_us, const store::ScheduleReportRow& last) {
  making_ = true;
  const auto since_us = std::max(last.report_us, report_us - kMaxReportUs);
  const auto made_us = context_.now();
  auto digest = std::make_shared<schema::Result<std::string>>();
  context_.world.offload(
      [&world = context_.world, digest, report_us, since_us, settled_since_us = last.put_us, made_us] {
        const auto told =
            schedule_digest(world.store, {since_us, report_us, settled_since_us}, made_us, kToldItems);
        if (!told)
          *digest = std::unexpected(told.error());
        else
          *digest = schema::canonical_json(*told);
      },
      [this, digest, report_us, since_us, made_us] {
        making_ = false;
        auto put_now = *digest ? put({report_us, made_us}, since_us, **digest)
                               : schema::Result<void>(std::unexpected(digest->error()));
        if (put_now || put_now.error().code == schema::ErrorCode::already_exists) {
          last_ = {report_us, made_us};
          waits_since_us_.reset();
          return;
        }
        next_look_us_ = context_.now() + kRetryUs;
        context_.warn(fmt::format("the report of the schedules that was due at {} is tried again: {}",
                                  report_us, put_now.error().describe()));
      });
}

schema::Result<void> ScheduledReports::put(const store::ScheduleReportRow& report, std::int64_t since_us,
                                           const std::string& digest) {
  return context_.commit_rows("put report", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    TRY(store::insert_schedule_report(tx, report.report_us, since_us, report.put_us));
    return context_.world.outbox.put_message(tx, notify::kReportEvent, digest, report.report_us,
                                             context_.now());
  });
}

}  // namespace driftgate::pipeline
