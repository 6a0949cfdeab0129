#include <fmt/core.h>

#include "daemon/api/handlers/changes.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/route_builder.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;

constexpr std::int64_t kShownNext = 5;

ReadNow schedule_of(Context& context, const Call& call) {
  return [&context, &call] { return context.schedules->get(call.path[0]); };
}

Reply change_at(Context& context, const Call& call, const ChangeAt& change) {
  return change_at(call, "schedule", schedule_of(context, call), change);
}

template <bool paused>
Reply set_paused(Context& context, const Call& call) {
  return change_at(context, call, [&](std::uint64_t revision) {
    return context.schedules->set_paused(call.principal.name, call.path[0], paused, revision);
  });
}

Reply post_schedule(Context& context, const Call& call) {
  const auto request = TRY(pipeline::parse_schedule_request(call.request.body, ""));
  const auto view = TRY(context.schedules->create(call.principal.name, request));
  return with_etag(created_response(view, "/v1/schedules"), view);
}

Reply list_schedules(Context& context, const Call& call) {
  const auto page = TRY(page_request(call));
  return page_response(call, context.schedules->list(page));
}

Reply get_schedule(Context& context, const Call& call) {
  const auto view = TRY(context.schedules->get(call.path[0]));
  return with_etag(json_response(200, view.json), view);
}

Reply put_schedule(Context& context, const Call& call) {
  const auto request = TRY(pipeline::parse_schedule_request(call.request.body, call.path[0]));
  return change_at(context, call, [&](std::uint64_t revision) {
    return context.schedules->replace(call.principal.name, request, revision);
  });
}

Reply delete_schedule(Context& context, const Call& call) {
  const auto remove = [&](std::uint64_t revision) -> schema::Result<pipeline::View> {
    TRY(context.schedules->remove(call.principal.name, call.path[0], revision));
    return pipeline::View{};
  };
  auto response = TRY(change_at(context, call, remove));
  return response.status == 200 ? no_content() : std::move(response);
}

Reply report_of_schedules(Context& context, const Call& call) {
  const auto since = TRY(number_of(call, "since_us"));
  const auto until = TRY(number_of(call, "until_us"));
  return view_response(context.schedules->report(since, until, call.query("model")));
}

Reply next_of_schedule(Context& context, const Call& call) {
  const auto count = TRY(number_of(call, "count"));
  const auto wanted = static_cast<std::size_t>(count.value_or(kShownNext));
  if (wanted < 1 || wanted > pipeline::kMaxNextFires)
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("'count' must be 1 to {}", pipeline::kMaxNextFires));
  return view_response(context.schedules->next(call.path[0], wanted));
}

}  // namespace

void add_schedule_routes(std::vector<Route>& list) {
  RouteGroup schedules(list, "schedules");
  schedules
      .post("/v1/schedules", "createSchedule", "Request promotions by a cron expression", Scope::promoter,
            post_schedule)
      .body("ScheduleRequest")
      .idempotent()
      .answer(201, "Schedule", "created");
  schedules.get("/v1/schedules", "listSchedules", "All schedules, by name", Scope::viewer, list_schedules)
      .pages("SchedulePage");
  schedules
      .get("/v1/schedules/report", "reportOfSchedules",
           "What came of each fire time of all schedules in a range of at most 31 days: fired or skipped and "
           "why, how "
           "its promotion ended, who must act; fire times of which nothing is recorded are named",
           Scope::viewer, report_of_schedules)
      .query("since_us", "integer",
             "from this time on, in µs since the epoch; 24 hours before its end by default")
      .query("until_us", "integer", "before this time, in µs since the epoch; now by default")
      .query("model", "string", "of this model only")
      .answer(200, "ScheduleReport", "the report");
  schedules
      .get("/v1/schedules/{name}", "getSchedule", "One schedule and the outcome of its last fire times",
           Scope::viewer, get_schedule)
      .answer(200, "Schedule", "the schedule; a change must name its ETag");
  schedules
      .get("/v1/schedules/{name}/next", "nextOfSchedule", "Its next fire times", Scope::viewer,
           next_of_schedule)
      .query("count", "integer", "how many; 5 by default")
      .answer(200, "ScheduleTimes", "in UTC and in its time zone");
  schedules
      .add("PUT", "/v1/schedules/{name}", "replaceSchedule",
           "Change it; needs If-Match. Whoever changes it counts as the requester of its promotions",
           Scope::promoter, put_schedule)
      .body("ScheduleRequest")
      .answer(200, "Schedule", "the schedule as it is now");
  schedules
      .add("DELETE", "/v1/schedules/{name}", "deleteSchedule", "Delete it; needs If-Match", Scope::promoter,
           delete_schedule)
      .answer(204, "", "deleted");
  schedules
      .post("/v1/schedules/{name}/pause", "pauseSchedule", "Stop it from firing; needs If-Match",
            Scope::operator_, set_paused<true>)
      .answer(200, "Schedule", "the schedule as it is now");
  schedules
      .post("/v1/schedules/{name}/resume", "resumeSchedule",
            "Let it fire again; missed fire times are not made up for; needs If-Match", Scope::operator_,
            set_paused<false>)
      .answer(200, "Schedule", "the schedule as it is now");
}

}  // namespace driftgate::api
