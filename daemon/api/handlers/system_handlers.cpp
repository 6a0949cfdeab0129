#include <nlohmann/json.hpp>

#include "daemon/api/access/credentials.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/metrics_text.hpp"
#include "daemon/api/model_metrics.hpp"
#include "daemon/api/openapi.hpp"
#include "daemon/api/route_builder.hpp"
#include "schema/contract/contract.hpp"
#include "schema/evidence/entry_kinds.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;

Reply get_health(Context&, const Call&) {
  return json_response(200, R"({"status":"ok"})");
}

Reply get_ready(Context& context, const Call&) {
  bool ready = true;
  json checks = json::array();
  for (const ReadyCheck& check : context.ready()) {
    ready = ready && check.ok;
    checks.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
  }
  return json_response(ready ? 200 : 503, json{{"ready", ready}, {"checks", checks}}.dump());
}

/// Everybody may ask; the figures name models only to those who may read about them.
Reply get_metrics(Context& context, const Call& call) {
  const auto who = authenticate(context.tokens, call.request, context.server.tls);
  const bool named = who && auth::require(*who, Scope::viewer);
  const auto figures = context.service.figures();
  auto text = service_metrics(figures) + event_metrics(figures) + context.more_metrics();
  text += scrape_metrics(named);
  if (named) text += model_metrics(figures);
  return text_response(std::move(text), "text/plain; version=0.0.4; charset=utf-8");
}

Reply get_openapi(Context&, const Call&) {
  return json_response(200, openapi_document());
}

Reply get_contract_schema(Context&, const Call&) {
  return json_response(200, schema::contract_json_schema());
}

Reply get_entry_schema(Context&, const Call& call) {
  constexpr std::string_view kSuffix = ".json";
  std::string_view name = call.path[0];
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  const auto kind = schema::parse_evidence_kind(name);
  if (!kind) return schema::fail(schema::ErrorCode::not_found, kind.error().message);
  return json_response(200, schema::entry_json_schema(*kind));
}

Reply get_whoami(Context&, const Call& call) {
  const auto& who = call.principal;
  return json_response(
      200, json{{"name", who.name}, {"scopes", who.scopes.names()}, {"token", who.token_id}}.dump());
}

Reply get_settings(Context& context, const Call&) {
  if (!context.settings)
    return schema::fail(schema::ErrorCode::unsupported, "this program was started without settings");
  return json_response(200, context.settings());
}

}  // namespace

void add_system_routes(std::vector<Route>& list) {
  RouteGroup system(list, "system");
  system.get("/healthz", "health", "Says that the process answers", {}, get_health)
      .answer(200, "Health", "alive");
  system.get("/readyz", "ready", "Says whether the daemon can do its work", {}, get_ready)
      .answer(200, "Ready", "ready")
      .answer(503, "Ready", "not ready; `checks` says why");
  system
      .get("/metrics", "metrics", "Metrics for Prometheus; with a token of scope viewer also by model", {},
           get_metrics)
      .answer(200, "", "Prometheus text format 0.0.4", "text/plain");
  system.get("/openapi.json", "openapi", "This document", {}, get_openapi)
      .answer(200, "Document", "OpenAPI 3.1");
  system
      .get("/schemas/contract.json", "contractSchema", "JSON Schema of the contract", {}, get_contract_schema)
      .answer(200, "Document", "JSON Schema");
  system
      .get("/schemas/entries/{kind}", "entrySchema", "JSON Schema of a kind of evidence entry: KIND.json", {},
           get_entry_schema)
      .answer(200, "Document", "JSON Schema");
  system.get("/v1/whoami", "whoami", "Name and scopes of the token", Scope::viewer, get_whoami)
      .answer(200, "Principal", "whose token it is");
  system.get("/v1/settings", "getSettings", "Every setting in force", Scope::operator_, get_settings)
      .answer(200, "Settings", "with its default and its meaning");
}

}  // namespace driftgate::api
