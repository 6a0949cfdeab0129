#include <fmt/format.h>

#include <ranges>

#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/streams/live_feed.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

Reply get_status(Context& context, const Call& call) {
  const auto page = TRY(page_request(call));
  const auto overview = TRY(context.service.overview(call.query("q"), page));
  const auto views = overview.page.items | std::views::transform(&pipeline::View::json);
  return items_response(call, fmt::format("[{}]", fmt::join(views.begin(), views.end(), ",")),
                        overview.page.next,
                        fmt::format(R"(,"counts":{},"tree_size":{})", overview.counts, overview.tree_size));
}

Reply stream_all(Context& context, const Call& call) {
  const auto header = call.request.header("last-event-id");
  const auto after = TRY(header ? number_of(*header, "Last-Event-ID") : number_of(call, "after"));
  net::Response response = text_response("", "text/event-stream");
  const auto seen = auth::require(call.principal, Scope::auditor) ? FeedOf::entries : FeedOf::states;
  // Without the place, which is another one each time: a stream that is resumed is the same read.
  if (after && seen == FeedOf::entries) TRY(context.evidence.note_read(call.principal.name, "events"));
  response.feed = live_feed(context.events, context.server, after, seen);
  return response;
}

}  // namespace

void add_overview_routes(std::vector<Route>& list) {
  RouteGroup overview(list, "overview");
  overview
      .get("/v1/status", "getStatus",
           "What every model is served by and where its promotion stands, by name, with the schedules and "
           "what is open",
           Scope::viewer, get_status)
      .query("q", "string", "with this text in the model's name")
      .pages("Status");
  overview
      .get("/v1/events", "streamEvents",
           "Stream what becomes of all models and promotions from now on, or after Last-Event-ID: `hello` "
           "first, then "
           "entries of the evidence (for auditors whole), and `progress` with each open promotion that has "
           "changed; "
           "`reset` when the log is another one than that of Last-Event-ID",
           Scope::viewer, stream_all)
      .query("after", "integer", "as Last-Event-ID, for clients that cannot send it")
      .answer(200, "", "server-sent events; ids are evidence sequence numbers", "text/event-stream");
}

}  // namespace driftgate::api
