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
  if (!last_us_) {
    last_us_ = TRY(look_up(context_.world.store, store::last_schedule_report));
    // Reports are due from the first start with this setting on.
    if (!last_us_) {
      TRY(context_.commit_rows("begin reports", [&](store::Tx& tx, Entries&) {
        return store::insert_schedule_report(tx, now_us, now_us, now_us);
      }));
      last_us_ = now_us;
    }
  }
  const auto next = schedule::next_fire(when_->cron, when_->zone, *last_us_ / kSecond);
  if (!next || *next * kSecond > now_us) return {};
  const auto due =
      schedule::decide_due(when_->cron, when_->zone, *next, now_us / kSecond, schedule::Misfire::skip, 0);
  put_report(due.fire_s * kSecond, *last_us_);
  return {};
}

void ScheduledReports::put_report(std::int64_t report_us, std::int64_t last_us) {
  making_ = true;
  const auto since_us = std::max(last_us, report_us - kMaxReportUs);
  auto digest = std::make_shared<schema::Result<std::string>>();
  context_.world.offload(
      [&world = context_.world, digest, report_us, since_us, now_us = context_.now()] {
        const auto report = schedule_report(world.store, {since_us, report_us, ""}, now_us);
        if (!report)
          *digest = std::unexpected(report.error());
        else
          *digest = schema::canonical_json(report_digest(*report, kToldItems));
      },
      [this, digest, report_us, since_us] {
        making_ = false;
        auto put_now = *digest ? put(report_us, since_us, **digest)
                               : schema::Result<void>(std::unexpected(digest->error()));
        if (put_now || put_now.error().code == schema::ErrorCode::already_exists) {
          last_us_ = report_us;
          return;
        }
        next_look_us_ = context_.now() + kRetryUs;
        context_.warn(fmt::format("the report of the schedules that was due at {} is tried again: {}",
                                  report_us, put_now.error().describe()));
      });
}

schema::Result<void> ScheduledReports::put(std::int64_t report_us, std::int64_t since_us,
                                           const std::string& digest) {
  const auto now_us = context_.now();
  return context_.commit_rows("put report", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    TRY(store::insert_schedule_report(tx, report_us, since_us, now_us));
    return context_.world.outbox.put_message(tx, notify::kReportEvent, digest, report_us, now_us);
  });
}

}  // namespace driftgate::pipeline
