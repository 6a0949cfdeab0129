#include <fmt/core.h>

#include <functional>

#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/preconditions.hpp"
#include "daemon/api/problem.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;

constexpr std::uint64_t kShownNext = 5;
constexpr int kTriesOfAny = 5;

net::Response with_etag(net::Response response, const schema::Result<pipeline::View>& view) {
  if (view) response.headers.push_back({"ETag", etag_of(view->seq)});
  return response;
}

net::Response failed_precondition(const std::string& why) {
  return api_problem(412, "precondition_failed", why);
}

using ChangeAt = std::function<schema::Result<pipeline::View>(std::uint64_t revision)>;

/// Makes a change to the revision that If-Match names: 428 without one, 412 when it names another than the newest.
/// A change by somebody else in between is 412 too; but "*" means whatever it is now, and tries again.
net::Response change_at(Context& context, const Call& call, const ChangeAt& change) {
  const auto wanted = if_match_of(call.request);
  if (!wanted) return problem(wanted.error());
  if (!*wanted)
    return api_problem(428, "precondition_required",
                       "A change names the revision that was read: send If-Match with the ETag of GET.");
  for (int tries = 0;; ++tries) {
    const auto now = context.schedules->get(call.path[0]);
    if (!now) return problem(now.error());
    if (!holds(**wanted, etag_of(now->seq)))
      return failed_precondition(fmt::format(
          "The schedule's ETag is {} now, which If-Match does not name: read it again.", etag_of(now->seq)));
    const auto view = change(now->seq);
    const bool overtaken = !view && view.error().code == ErrorCode::conflict;
    if (overtaken && (*wanted)->any && tries < kTriesOfAny) continue;
    if (overtaken) return failed_precondition(view.error().describe());
    return with_etag(view_response(view), view);
  }
}

net::Response set_paused(Context& context, const Call& call, bool paused) {
  return change_at(context, call, [&](std::uint64_t revision) {
    return context.schedules->set_paused(call.principal.name, call.path[0], paused, revision);
  });
}

}  // namespace

net::Response post_schedule(Context& context, const Call& call) {
  const auto request = pipeline::parse_schedule_request(call.request.body, "");
  if (!request) return problem(request.error());
  const auto view = context.schedules->create(call.principal.name, *request);
  return with_etag(created_response(view, "/v1/schedules"), view);
}

net::Response list_schedules(Context& context, const Call& call) {
  const auto page = page_request(call);
  if (!page) return problem(page.error());
  return page_response(call, context.schedules->list(*page));
}

net::Response get_schedule(Context& context, const Call& call) {
  const auto view = context.schedules->get(call.path[0]);
  return with_etag(view_response(view), view);
}

net::Response put_schedule(Context& context, const Call& call) {
  const auto request = pipeline::parse_schedule_request(call.request.body, call.path[0]);
  if (!request) return problem(request.error());
  return change_at(context, call, [&](std::uint64_t revision) {
    return context.schedules->replace(call.principal.name, *request, revision);
  });
}

net::Response delete_schedule(Context& context, const Call& call) {
  net::Response response =
      change_at(context, call, [&](std::uint64_t revision) -> schema::Result<pipeline::View> {
        TRY(context.schedules->remove(call.principal.name, call.path[0], revision));
        return pipeline::View{};
      });
  if (response.status != 200) return response;
  net::Response done;
  done.status = 204;
  return done;
}

net::Response pause_schedule(Context& context, const Call& call) {
  return set_paused(context, call, true);
}

net::Response resume_schedule(Context& context, const Call& call) {
  return set_paused(context, call, false);
}

net::Response next_of_schedule(Context& context, const Call& call) {
  const auto count = number_of(call.query("count"), "count");
  if (!count) return problem(count.error());
  const auto wanted = count->value_or(kShownNext);
  if (wanted < 1 || wanted > pipeline::kMaxNextFires)
    return problem(ErrorCode::invalid_argument,
                   fmt::format("'count' must be 1 to {}", pipeline::kMaxNextFires));
  return view_response(context.schedules->next(call.path[0], static_cast<std::size_t>(wanted)));
}

}  // namespace driftgate::api
