#include <nlohmann/json.hpp>

#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/metrics_text.hpp"
#include "daemon/api/openapi.hpp"
#include "daemon/api/problem.hpp"
#include "schema/contract/contract.hpp"
#include "schema/evidence/entry_kinds.hpp"

namespace driftgate::api {

net::Response get_health(Context&, const Call&) {
  return json_response(200, R"({"status":"ok"})");
}

net::Response get_ready(Context& context, const Call&) {
  bool ready = true;
  nlohmann::json checks = nlohmann::json::array();
  for (const ReadyCheck& check : context.ready()) {
    ready = ready && check.ok;
    checks.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
  }
  return json_response(ready ? 200 : 503, nlohmann::json{{"ready", ready}, {"checks", checks}}.dump());
}

net::Response get_metrics(Context& context, const Call&) {
  return text_response(service_metrics(context.service.figures()) + context.more_metrics(),
                       "text/plain; version=0.0.4; charset=utf-8");
}

net::Response get_openapi(Context&, const Call&) {
  return json_response(200, openapi_document());
}

net::Response get_contract_schema(Context&, const Call&) {
  return json_response(200, schema::contract_json_schema());
}

net::Response get_entry_schema(Context&, const Call& call) {
  constexpr std::string_view kSuffix = ".json";
  std::string_view name = call.path[0];
  if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
  const auto kind = schema::parse_evidence_kind(name);
  if (!kind) return problem(schema::ErrorCode::not_found, kind.error().message);
  return json_response(200, schema::entry_json_schema(*kind));
}

net::Response get_whoami(Context&, const Call& call) {
  nlohmann::json scopes = nlohmann::json::array();
  for (const auth::Scope scope : call.principal.scopes.list()) scopes.push_back(auth::to_string(scope));
  return json_response(
      200,
      nlohmann::json{{"name", call.principal.name}, {"scopes", scopes}, {"token", call.principal.token_id}}
          .dump());
}

}  // namespace driftgate::api
