#include <nlohmann/json.hpp>

#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/handlers/service_handlers.hpp"
#include "daemon/api/route_builder.hpp"
#include "daemon/base/json_members.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using pipeline::Service;

json faults_json(const std::vector<schema::Fault>& faults) {
  json list = json::array();
  for (const schema::Fault& fault : faults)
    list.push_back({{"line", fault.position.line},
                    {"column", fault.position.column},
                    {"pointer", fault.pointer},
                    {"message", fault.message}});
  return list;
}

Reply post_contract(Context& context, const Call& call) {
  const auto view =
      TRY(context.service.register_contract(call.principal.name, call.request.body, "contract"));
  return created_response(view, "/v1/contracts");
}

Reply lint_contract(Context&, const Call& call) {
  const schema::ContractReport report = schema::parse_contract(call.request.body, "contract");
  const bool valid = report.contract.has_value();
  const json body{{"valid", valid},
                  {"digest", valid ? json(report.contract->digest) : json(nullptr)},
                  {"faults", faults_json(report.faults)},
                  {"warnings", faults_json(report.warnings)}};
  return json_response(200, body.dump(-1, ' ', false, json::error_handler_t::replace));
}

Reply post_kernel(Context& context, const Call& call) {
  const auto view = TRY(context.service.register_kernel(call.principal.name, call.request.body));
  return created_response(view, "/v1/kernels");
}

Reply post_engine(Context& context, const Call& call) {
  const auto request = TRY(pipeline::parse_engine_request(call.request.body));
  const auto view = TRY(context.service.register_engine(call.principal.name, request));
  return created_response(view, "/v1/engines");
}

Reply post_model(Context& context, const Call& call) {
  const auto request = TRY(pipeline::parse_model_request(call.request.body));
  const auto view = TRY(context.service.create_model(call.principal.name, request));
  return created_response(view, "/v1/models");
}

Reply get_model_route(Context& context, const Call& call) {
  const auto model = TRY(context.service.model(call.path[0]));
  const json view = json::parse(model.json, nullptr, false);
  const json* const route = base::member(view, "route");
  if (route == nullptr || !route->is_object())
    return schema::fail(schema::ErrorCode::not_found, "model '" + call.path[0] + "' has no route yet");
  return json_response(200, route->dump());
}

void add_contract_routes(std::vector<Route>& list) {
  RouteGroup contracts(list, "contracts");
  contracts
      .post("/v1/contracts", "registerContract", "Register a contract (YAML or JSON)", Scope::promoter,
            post_contract)
      .body("ContractDocument")
      .yaml()
      .idempotent()
      .answer(201, "Contract", "registered")
      .answer(200, "Contract", "the same document was already registered");
  contracts
      .post("/v1/contracts/lint", "lintContract", "Check a contract without registering it", Scope::viewer,
            lint_contract)
      .body("ContractDocument")
      .yaml()
      .answer(200, "LintReport", "faults and warnings");
  contracts
      .get("/v1/contracts", "listContracts", "All contracts, oldest first", Scope::viewer,
           list_of<&Service::contracts>)
      .pages("ContractPage");
  contracts
      .get("/v1/contracts/{contract}", "getContract", "One contract, by digest or name", Scope::viewer,
           one_of<&Service::contract>)
      .answer(200, "Contract", "the contract");
}

void add_kernel_and_engine_routes(std::vector<Route>& list) {
  RouteGroup kernels(list, "kernels");
  kernels.post("/v1/kernels", "registerKernel", "Register a kernel", Scope::promoter, post_kernel)
      .body("KernelRequest")
      .idempotent()
      .answer(201, "Kernel", "registered")
      .answer(200, "Kernel", "the same kernel was already registered");
  kernels.get("/v1/kernels", "listKernels", "All kernels", Scope::viewer, list_of<&Service::kernels>)
      .pages("KernelPage");
  kernels.get("/v1/kernels/{name}", "getKernel", "One kernel", Scope::viewer, one_of<&Service::kernel>)
      .answer(200, "Kernel", "the kernel");

  RouteGroup engines(list, "engines");
  engines
      .post("/v1/engines", "registerEngine", "Register an engine and probe what it can do", Scope::promoter,
            post_engine)
      .body("EngineRequest")
      .idempotent()
      .answer(201, "Engine", "registered")
      .answer(200, "Engine", "the same engine was already registered");
  engines.get("/v1/engines", "listEngines", "All engines", Scope::viewer, list_of<&Service::engines>)
      .pages("EnginePage");
  engines
      .get("/v1/engines/{name}", "getEngine", "One engine with its abilities", Scope::viewer,
           one_of<&Service::engine>)
      .answer(200, "Engine", "the engine");
}

void add_model_routes(std::vector<Route>& list) {
  RouteGroup models(list, "models");
  models.post("/v1/models", "createModel", "Install a model's first version", Scope::operator_, post_model)
      .body("ModelRequest")
      .idempotent()
      .answer(201, "Model", "installed")
      .answer(200, "Model", "the same model was already installed");
  models.get("/v1/models", "listModels", "All models", Scope::viewer, list_of<&Service::models>)
      .pages("ModelPage");
  models
      .get("/v1/models/{name}", "getModel", "One model: what serves it, its hold, its route", Scope::viewer,
           one_of<&Service::model>)
      .answer(200, "Model", "the model");
  models
      .get("/v1/models/{name}/route", "getRoute", "The route as desired and as read back", Scope::viewer,
           get_model_route)
      .answer(200, "RouteState", "the route");
  models
      .post("/v1/models/{name}/lift-hold", "liftHold",
            "Lift the hold, so that the model can be promoted again", Scope::operator_,
            with_reason<&Service::lift_hold>)
      .body("ReasonRequest")
      .idempotent()
      .answer(200, "Model", "the model");
}

}  // namespace

void add_registry_routes(std::vector<Route>& list) {
  add_contract_routes(list);
  add_kernel_and_engine_routes(list);
  add_model_routes(list);
}

}  // namespace driftgate::api
