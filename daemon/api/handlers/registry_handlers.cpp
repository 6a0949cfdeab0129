#include <nlohmann/json.hpp>

#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/problem.hpp"
#include "daemon/api/reason.hpp"
#include "schema/contract/contract.hpp"
#include "schema/json.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;

json faults_json(const std::vector<schema::Fault>& faults) {
  json list = json::array();
  for (const schema::Fault& fault : faults)
    list.push_back({{"line", fault.position.line},
                    {"column", fault.position.column},
                    {"pointer", fault.pointer},
                    {"message", fault.message}});
  return list;
}

using PageFunction = schema::Result<pipeline::Page> (pipeline::Service::*)(const pipeline::PageRequest&);

net::Response list(Context& context, const Call& call, PageFunction function) {
  const auto page = page_request(call);
  if (!page) return problem(page.error());
  return page_response(call, (context.service.*function)(*page));
}

}  // namespace

net::Response post_contract(Context& context, const Call& call) {
  return created_response(
      context.service.register_contract(call.principal.name, call.request.body, "contract"), "/v1/contracts");
}

net::Response lint_contract(Context&, const Call& call) {
  const schema::ContractReport report = schema::parse_contract(call.request.body, "contract");
  const bool valid = report.contract.has_value();
  const json body{{"valid", valid},
                  {"digest", valid ? json(report.contract->digest) : json(nullptr)},
                  {"faults", faults_json(report.faults)},
                  {"warnings", faults_json(report.warnings)}};
  return json_response(200, body.dump(-1, ' ', false, json::error_handler_t::replace));
}

net::Response list_contracts(Context& context, const Call& call) {
  return list(context, call, &pipeline::Service::contracts);
}

net::Response get_contract(Context& context, const Call& call) {
  return view_response(context.service.contract(call.path[0]));
}

net::Response post_kernel(Context& context, const Call& call) {
  return created_response(context.service.register_kernel(call.principal.name, call.request.body),
                          "/v1/kernels");
}

net::Response list_kernels(Context& context, const Call& call) {
  return list(context, call, &pipeline::Service::kernels);
}

net::Response get_kernel(Context& context, const Call& call) {
  return view_response(context.service.kernel(call.path[0]));
}

net::Response post_engine(Context& context, const Call& call) {
  const auto request = pipeline::parse_engine_request(call.request.body);
  if (!request) return problem(request.error());
  return created_response(context.service.register_engine(call.principal.name, *request), "/v1/engines");
}

net::Response list_engines(Context& context, const Call& call) {
  return list(context, call, &pipeline::Service::engines);
}

net::Response get_engine(Context& context, const Call& call) {
  return view_response(context.service.engine(call.path[0]));
}

net::Response post_model(Context& context, const Call& call) {
  const auto request = pipeline::parse_model_request(call.request.body);
  if (!request) return problem(request.error());
  return created_response(context.service.create_model(call.principal.name, *request), "/v1/models");
}

net::Response list_models(Context& context, const Call& call) {
  return list(context, call, &pipeline::Service::models);
}

net::Response get_model(Context& context, const Call& call) {
  return view_response(context.service.model(call.path[0]));
}

net::Response get_model_route(Context& context, const Call& call) {
  const auto model = context.service.model(call.path[0]);
  if (!model) return problem(model.error());
  const json view = json::parse(model->json, nullptr, false);
  if (!view.is_object() || !view.contains("route") || !view["route"].is_object())
    return problem(schema::ErrorCode::not_found, "model '" + call.path[0] + "' has no route yet");
  return json_response(200, view["route"].dump());
}

net::Response lift_hold(Context& context, const Call& call) {
  const auto reason = parse_reason(call.request.body);
  if (!reason) return problem(reason.error());
  return view_response(context.service.lift_hold(call.principal.name, call.path[0], *reason));
}

}  // namespace driftgate::api
