#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/handlers/service_handlers.hpp"
#include "daemon/api/streams/promotion_feed.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

using pipeline::Service;

Reply post_promotion(Context& context, const Call& call) {
  const auto request = TRY(context.recipes->complete(call.request.body));
  const bool dry_run = TRY(flag_of(call, "dry_run"));
  if (dry_run) return view_response(context.service.plan_promotion(call.principal.name, request));
  const auto view = TRY(context.service.request_promotion(call.principal.name, request));
  return created_response(view, "/v1/promotions");
}

Reply list_promotions(Context& context, const Call& call) {
  const auto page = TRY(page_request(call));
  const bool open = TRY(flag_of(call, "open"));
  const bool needs = TRY(flag_of(call, "needs"));
  const pipeline::PromotionFilter filter{.model = call.query("model"),
                                         .state = call.query("state"),
                                         .requester = call.query("requester"),
                                         .contract = call.query("contract"),
                                         .text = call.query("q"),
                                         .open = open,
                                         .needs = needs,
                                         .order = call.query("order")};
  return page_response(call, context.service.promotions(filter, page));
}

Reply get_report(Context& context, const Call& call) {
  return view_response(context.service.report(call.path[0], call.path[1]));
}

Reply what_if(Context& context, const Call& call) {
  return view_response(context.service.what_if(call.path[0], call.request.body, call.request.stop));
}

Reply approve_promotion(Context& context, const Call& call) {
  const auto body = TRY(parse_approval(call.request.body));
  return view_response(
      context.service.approve(call.principal.name, call.path[0], body.evidence_digest, body.reason));
}

Reply waive_promotion(Context& context, const Call& call) {
  const auto body = TRY(parse_waiver(call.request.body));
  return view_response(context.service.waive(call.principal.name, call.path[0], body.clause,
                                             body.evidence_digest, body.reason));
}

Reply redact_promotion(Context& context, const Call& call) {
  const auto reason = TRY(parse_reason(call.request.body));
  TRY(context.redact(call.principal.name, call.path[0], reason));
  return view_response(context.service.promotion(call.path[0]));
}

Reply stream_promotion(Context& context, const Call& call) {
  TRY(context.service.outcome(call.path[0]));
  const auto header = call.request.header("last-event-id");
  const auto after = TRY(header ? number_of(*header, "Last-Event-ID") : number_of(call, "after"));
  net::Response response = text_response("", "text/event-stream");
  const auto seen = auth::require(call.principal, Scope::auditor) ? FeedOf::entries : FeedOf::states;
  response.feed = promotion_feed(context.service, context.evidence, call.path[0], after, seen);
  return response;
}

void add_list_route(RouteGroup& promotions) {
  promotions
      .get("/v1/promotions", "listPromotions",
           "Promotions that match all given filters, newest first; without `open` of the stages' summaries",
           Scope::viewer, list_promotions)
      .query("model", "string", "of this model")
      .query("state", "string", "in this state")
      .query("open", "boolean", "only those that have not ended")
      .query("needs", "boolean", "only those that wait for people: awaiting_approval, inconclusive, paused")
      .query("requester", "string", "asked for by this person")
      .query("contract", "string", "under this contract: digest or name")
      .query("q", "string", "with this text in the id, the model, the engine or the contract's name")
      .query("order", "string", "newest (default), oldest, or updated: by the last change, newest first")
      .pages("PromotionPage");
}

void add_intervention_routes(RouteGroup& promotions) {
  struct Intervention {
    std::string_view path, id, summary;
    HandlerFunction handler;
    std::string_view body = "InterventionRequest";
    net::Lane lane = net::Lane::ordinary;
  };
  const Intervention interventions[] = {
      {"/v1/promotions/{id}/abort", "abortPromotion", "End it, with the candidate at 0% traffic first",
       by_order<&Service::abort>, "InterventionRequest", net::Lane::urgent},
      {"/v1/promotions/{id}/rollback", "rollbackPromotion", "Restore the previous version and set a hold",
       by_order<&Service::rollback>, "InterventionRequest", net::Lane::urgent},
      {"/v1/promotions/{id}/pause", "pausePromotion", "Freeze the traffic shares; harm tests continue",
       by_order<&Service::pause>},
      {"/v1/promotions/{id}/resume", "resumePromotion",
       "Continue after a pause, or repeat an inconclusive stage", by_order<&Service::resume>},
      {"/v1/promotions/{id}/redact", "redactPromotion",
       "Destroy the stored data of individual requests of a promotion that has ended", redact_promotion,
       "ReasonRequest"}};
  for (const Intervention& it : interventions)
    promotions.post(it.path, it.id, it.summary, Scope::operator_, it.handler)
        .body(it.body)
        .idempotent()
        .lane(it.lane)
        .answer(200, "Promotion", "the promotion as it is now");
}

}  // namespace

void add_promotion_routes(std::vector<Route>& list) {
  RouteGroup promotions(list, "promotions");
  promotions
      .post("/v1/promotions", "requestPromotion",
            "Request a promotion, with what the request lacks from the model's recipe; `Prefer: wait=N` "
            "waits for "
            "its end, N seconds and at most 60",
            Scope::promoter, post_promotion)
      .query("dry_run", "boolean", "return the plan and change nothing")
      .body("PromotionRequest")
      .idempotent()
      .waits()
      .answer(201, "Promotion", "accepted")
      .answer(200, "Plan", "dry run: stages, clauses, windows, needed samples, the whole request");
  add_list_route(promotions);
  promotions
      .get("/v1/promotions/{id}", "getPromotion",
           "One promotion; `Prefer: wait=N` waits for its end, N seconds and at most 60", Scope::viewer,
           one_of<&Service::promotion>)
      .waits()
      .answer(200, "Promotion", "the promotion");
  promotions
      .get("/v1/promotions/{id}/stages/{stage}/report", "getReport",
           "A stage's report: verdicts, bounds, slices, worst rows", Scope::viewer, get_report)
      .answer(200, "Document", "the report");
  promotions
      .post("/v1/promotions/{id}/what-if", "whatIf",
            "Decide its stored evidence again under another contract; changes nothing", Scope::viewer,
            what_if)
      .body("ContractDocument")
      .yaml()
      .lane(net::Lane::long_running)
      .answer(200, "Document", "which verdicts change, by stage");
  promotions
      .get("/v1/promotions/{id}/events", "streamPromotion",
           "Stream its states, shares and progress, and for auditors its evidence; resumes after "
           "Last-Event-ID",
           Scope::viewer, stream_promotion)
      .query("after", "integer", "as Last-Event-ID, for clients that cannot send it")
      .answer(200, "", "server-sent events; ids are evidence sequence numbers", "text/event-stream");
  promotions
      .post("/v1/promotions/{id}/approve", "approvePromotion",
            "Approve the step that waits for approval, naming the evidence that was read", Scope::approver,
            approve_promotion)
      .body("ApprovalRequest")
      .idempotent()
      .answer(200, "Promotion", "the promotion as it is now");
  promotions
      .post("/v1/promotions/{id}/waive", "waivePromotion",
            "Waive an inconclusive clause; it takes two people, neither of them the requester",
            Scope::approver, waive_promotion)
      .body("WaiverRequest")
      .idempotent()
      .answer(200, "Promotion", "the promotion as it is now");
  add_intervention_routes(promotions);
}

}  // namespace driftgate::api
