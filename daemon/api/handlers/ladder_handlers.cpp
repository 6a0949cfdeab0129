#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/problem.hpp"
#include "daemon/api/reason.hpp"

namespace driftgate::api {
namespace {

net::Response answer(const schema::Result<std::string>& json) {
  return json ? json_response(200, *json) : problem(json.error());
}

}  // namespace

net::Response list_blocks(Context& context, const Call& call) {
  const auto page = page_request(call);
  if (!page) return problem(page.error());
  return page_response(call, context.service.blocks(*page));
}

net::Response lift_block(Context& context, const Call& call) {
  const auto reason = parse_reason(call.request.body);
  if (!reason) return problem(reason.error());
  return view_response(context.service.lift_block(call.principal.name, call.path[0], *reason));
}

net::Response list_webhooks(Context& context, const Call&) {
  return answer(context.webhooks->list());
}

net::Response test_webhook(Context& context, const Call& call) {
  return answer(context.webhooks->test(call.principal.name, call.path[0]));
}

net::Response enable_webhook(Context& context, const Call& call) {
  return answer(context.webhooks->enable(call.path[0]));
}

}  // namespace driftgate::api
