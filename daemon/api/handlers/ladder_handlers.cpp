#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/handlers/service_handlers.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

using pipeline::Service;

Reply list_webhooks(Context& context, const Call&) {
  auto endpoints = TRY(context.webhooks->list());
  return json_response(200, std::move(endpoints));
}

Reply test_webhook(Context& context, const Call& call) {
  auto endpoint = TRY(context.webhooks->test(call.principal.name, call.path[0]));
  return json_response(200, std::move(endpoint));
}

Reply enable_webhook(Context& context, const Call& call) {
  auto endpoint = TRY(context.webhooks->enable(call.path[0]));
  return json_response(200, std::move(endpoint));
}

}  // namespace

void add_ladder_routes(std::vector<Route>& list) {
  RouteGroup blocks(list, "blocks");
  blocks
      .get("/v1/blocks", "listBlocks", "Which pairs of checkpoint and kernel are blocked, and lifted blocks",
           Scope::viewer, list_of<&Service::blocks>)
      .pages("BlockPage", "a page, oldest first");
  blocks
      .post("/v1/blocks/{id}/lift", "liftBlock",
            "Lift a block, so that the pair can be promoted again under the contract", Scope::operator_,
            with_reason<&Service::lift_block>)
      .body("ReasonRequest")
      .idempotent()
      .answer(200, "Block", "the block");

  RouteGroup webhooks(list, "webhooks");
  webhooks
      .get("/v1/webhooks", "listWebhooks", "The configured endpoints and the state of their deliveries",
           Scope::operator_, list_webhooks)
      .answer(200, "WebhookPage", "all endpoints");
  webhooks
      .post("/v1/webhooks/{name}/test", "testWebhook", "Send a message of type driftgate.test",
            Scope::operator_, test_webhook)
      .answer(200, "Webhook", "queued for delivery");
  webhooks
      .post("/v1/webhooks/{name}/enable", "enableWebhook",
            "Resume delivery to an endpoint that was disabled because it answered 410", Scope::operator_,
            enable_webhook)
      .answer(200, "Webhook", "enabled");
}

}  // namespace driftgate::api
