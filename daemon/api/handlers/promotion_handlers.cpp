#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/problem.hpp"
#include "daemon/api/promotion_feed.hpp"
#include "daemon/api/reason.hpp"

namespace driftgate::api {
namespace {

using Change = schema::Result<pipeline::View> (pipeline::Service::*)(const std::string&, const std::string&,
                                                                     const std::string&);

net::Response change(Context& context, const Call& call, Change function) {
  const auto reason = parse_reason(call.request.body);
  if (!reason) return problem(reason.error());
  return view_response((context.service.*function)(call.principal.name, call.path[0], *reason));
}

}  // namespace

net::Response post_promotion(Context& context, const Call& call) {
  auto request = pipeline::parse_promotion_request(call.request.body);
  if (!request) return problem(request.error());
  const std::string dry_run = call.query("dry_run");
  if (!dry_run.empty() && dry_run != "true" && dry_run != "false")
    return problem(schema::ErrorCode::invalid_argument, "'dry_run' must be true or false");
  if (dry_run == "true") return view_response(context.service.plan_promotion(call.principal.name, *request));
  const auto view = context.service.request_promotion(call.principal.name, *request);
  return created_response(view, "/v1/promotions");
}

net::Response list_promotions(Context& context, const Call& call) {
  const auto page = page_request(call);
  if (!page) return problem(page.error());
  return page_response(call, context.service.promotions({call.query("model"), call.query("state")}, *page));
}

net::Response get_promotion(Context& context, const Call& call) {
  return view_response(context.service.promotion(call.path[0]));
}

net::Response get_report(Context& context, const Call& call) {
  return view_response(context.service.report(call.path[0], call.path[1]));
}

net::Response what_if(Context& context, const Call& call) {
  return view_response(context.service.what_if(call.path[0], call.request.body));
}

net::Response approve_promotion(Context& context, const Call& call) {
  const auto body = parse_approval(call.request.body);
  if (!body) return problem(body.error());
  return view_response(
      context.service.approve(call.principal.name, call.path[0], body->evidence_digest, body->reason));
}

net::Response waive_promotion(Context& context, const Call& call) {
  const auto body = parse_waiver(call.request.body);
  if (!body) return problem(body.error());
  return view_response(context.service.waive(call.principal.name, call.path[0], body->clause,
                                             body->evidence_digest, body->reason));
}

net::Response abort_promotion(Context& context, const Call& call) {
  return change(context, call, &pipeline::Service::abort);
}

net::Response rollback_promotion(Context& context, const Call& call) {
  return change(context, call, &pipeline::Service::rollback);
}

net::Response pause_promotion(Context& context, const Call& call) {
  return change(context, call, &pipeline::Service::pause);
}

net::Response resume_promotion(Context& context, const Call& call) {
  return change(context, call, &pipeline::Service::resume);
}

net::Response redact_promotion(Context& context, const Call& call) {
  const auto reason = parse_reason(call.request.body);
  if (!reason) return problem(reason.error());
  const auto redacted = context.redact(call.principal.name, call.path[0], *reason);
  if (!redacted) return problem(redacted.error());
  return view_response(context.service.promotion(call.path[0]));
}

net::Response stream_promotion(Context& context, const Call& call) {
  const auto exists = context.service.outcome(call.path[0]);
  if (!exists) return problem(exists.error());
  const auto header = call.request.header("last-event-id");
  const std::string given = header ? std::string(*header) : call.query("after");
  const auto after = number_of(given, header ? "Last-Event-ID" : "after");
  if (!after) return problem(after.error());
  std::optional<std::int64_t> last_seen;
  if (*after) last_seen = static_cast<std::int64_t>(**after);
  net::Response response = text_response("", "text/event-stream");
  const auto seen = auth::require(call.principal, auth::Scope::auditor) ? FeedOf::entries : FeedOf::states;
  response.feed = promotion_feed(context.service, context.evidence, call.path[0], last_seen, seen);
  return response;
}

}  // namespace driftgate::api
