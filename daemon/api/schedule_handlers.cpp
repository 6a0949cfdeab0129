#include <fmt/core.h>

#include "daemon/api/handlers.hpp"
#include "daemon/api/problem.hpp"
#include "daemon/pipeline/schedule_desk.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;

constexpr std::uint64_t kShownNext = 5;

net::Response with_etag(net::Response response, const schema::Result<pipeline::View>& view) {
  if (view) response.headers.push_back({"ETag", fmt::format("\"{}\"", view->seq)});
  return response;
}

/// The revision in If-Match, or the answer: 428 without one, 412 for one that no revision can be.
schema::Result<std::uint64_t> read_if_match(const Call& call, net::Response& refusal) {
  const auto header = call.request.header("if-match");
  if (!header) {
    refusal = api_problem(428, "precondition_required",
                          "A change names the revision that was read: send If-Match with the ETag of GET.");
    return schema::fail(ErrorCode::invalid_argument, "no If-Match");
  }
  std::string_view tag = *header;
  if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') {
    tag = tag.substr(1, tag.size() - 2);
    const auto number = number_of(tag, "If-Match");
    if (number && *number) return **number;
  }
  refusal = api_problem(412, "precondition_failed",
                        fmt::format("If-Match {} is not the ETag of the schedule: read it again.", *header));
  return schema::fail(ErrorCode::invalid_argument, "a strange If-Match");
}

/// A revision that is not the newest is 412, and nothing else is.
net::Response changed_response(const schema::Result<pipeline::View>& view) {
  if (!view && view.error().code == ErrorCode::conflict)
    return api_problem(412, "precondition_failed", view.error().describe());
  return with_etag(view_response(view), view);
}

net::Response set_paused(Context& context, const Call& call, bool paused) {
  net::Response refusal;
  const auto revision = read_if_match(call, refusal);
  if (!revision) return refusal;
  return changed_response(
      context.schedules->set_paused(call.principal.name, call.path[0], paused, *revision));
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
  net::Response refusal;
  const auto revision = read_if_match(call, refusal);
  if (!revision) return refusal;
  const auto request = pipeline::parse_schedule_request(call.request.body, call.path[0]);
  if (!request) return problem(request.error());
  return changed_response(context.schedules->replace(call.principal.name, *request, *revision));
}

net::Response delete_schedule(Context& context, const Call& call) {
  net::Response refusal;
  const auto revision = read_if_match(call, refusal);
  if (!revision) return refusal;
  const auto removed = context.schedules->remove(call.principal.name, call.path[0], *revision);
  if (!removed && removed.error().code == ErrorCode::conflict)
    return api_problem(412, "precondition_failed", removed.error().describe());
  if (!removed) return problem(removed.error());
  net::Response response;
  response.status = 204;
  return response;
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
