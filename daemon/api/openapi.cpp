#include "daemon/api/openapi.hpp"

#include <nlohmann/json.hpp>

#include "daemon/api/access/credentials.hpp"
#include "daemon/api/openapi_schemas.hpp"
#include "daemon/api/routes.hpp"

namespace driftgate::api {
namespace {

using Json = nlohmann::ordered_json;

Json schema_ref(std::string_view name) {
  return {{"$ref", "#/components/schemas/" + std::string(name)}};
}

/// It takes a token alone: no session opens another one.
bool opens_session(const Route& route) {
  return route.id == "openSession";
}

Json parameters_of(const Route& route) {
  Json parameters = Json::array();
  std::string_view rest = route.path;
  for (std::size_t open = rest.find('{'); open != std::string_view::npos; open = rest.find('{')) {
    rest = rest.substr(open + 1);
    const std::string_view name = rest.substr(0, rest.find('}'));
    parameters.push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  for (const QueryParameter& query : route.query) {
    Json parameter{{"name", query.name}, {"in", "query"}, {"schema", {{"type", query.type}}}};
    if (!query.text.empty()) parameter["description"] = query.text;
    parameters.push_back(std::move(parameter));
  }
  if (route.idempotent)
    parameters.push_back(
        {{"name", "Idempotency-Key"},
         {"in", "header"},
         {"description",
          "a repeated request with the same key and body gets the stored answer; another body gets a 422"},
         {"schema", {{"type", "string"}, {"maxLength", store::kMaxIdempotencyKeyBytes}}}});
  const bool changes = route.method != "GET" && route.method != "HEAD";
  if (route.scope && changes && !opens_session(route))
    parameters.push_back({{"name", "X-CSRF-Token"},
                          {"in", "header"},
                          {"description", "with a session's cookie: `csrf` of GET /v1/session"},
                          {"schema", {{"type", "string"}}}});
  return parameters;
}

Json responses_of(const Route& route) {
  Json responses = Json::object();
  for (const Answer& answer : route.answers) {
    Json response{{"description", answer.text}};
    if (!answer.schema.empty())
      response["content"][std::string(answer.media_type)]["schema"] = schema_ref(answer.schema);
    else if (answer.status != 204)
      response["content"][std::string(answer.media_type)]["schema"] = {{"type", "string"}};
    responses[std::to_string(answer.status)] = std::move(response);
  }
  responses["default"] = {{"description", "a problem"},
                          {"content", {{"application/problem+json", {{"schema", schema_ref("Problem")}}}}}};
  return responses;
}

Json operation_of(const Route& route) {
  Json operation{{"operationId", route.id}, {"tags", {route.tag}}, {"summary", route.summary}};
  if (route.scope) {
    operation["description"] = "Scope: " + std::string(auth::to_string(*route.scope)) + ".";
    operation["security"] = Json::array();
    operation["security"].push_back(Json{{"bearer", Json::array()}});
    if (!opens_session(route)) operation["security"].push_back(Json{{"session", Json::array()}});
  } else {
    operation["security"] = Json::array();
  }
  Json parameters = parameters_of(route);
  if (!parameters.empty()) operation["parameters"] = std::move(parameters);
  if (!route.request_schema.empty()) {
    Json content{{"application/json", {{"schema", schema_ref(route.request_schema)}}}};
    if (route.yaml) content["application/yaml"]["schema"] = schema_ref(route.request_schema);
    operation["requestBody"] = {{"required", true}, {"content", std::move(content)}};
  }
  operation["responses"] = responses_of(route);
  return operation;
}

/// The bodies of the API, with a page of each resource that is listed.
Json schemas() {
  Json schemas = Json::parse(component_schemas());
  for (const std::string name :
       {"Contract", "Kernel", "Engine", "Model", "Block", "Webhook", "Promotion", "Job", "Schedule", "Token"})
    schemas[name + "Page"] = {
        {"type", "object"},
        {"required", {"items", "next"}},
        {"properties",
         {{"items", {{"type", "array"}, {"items", schema_ref(name)}}}, {"next", schema_ref("Cursor")}}}};
  return schemas;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string make_document() {
  Json document{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "driftgate"},
        {"version", "1"},
        {"description",
         "May this checkpoint, served by this inference kernel, replace what is served now? Errors are "
         "RFC 9457 problems. Lists are paged by opaque cursors (`next`, `Link: rel=\"next\"`)."}}},
      {"servers", {{{"url", "http://127.0.0.1:7433"}}}},
      {"paths", Json::object()}};
  for (const Route& route : routes())
    document["paths"][std::string(route.path)][lower(route.method)] = operation_of(route);
  document["components"]["securitySchemes"]["bearer"] = {{"type", "http"}, {"scheme", "bearer"}};
  document["components"]["securitySchemes"]["session"] = {
      {"type", "apiKey"},
      {"in", "cookie"},
      {"name", std::string(kSessionCookie) + "_7433"},
      {"description", "given by POST /v1/session, named after the port; over TLS it is " +
                          std::string(kSecureSessionCookie) +
                          ". Everything but GET and HEAD also needs X-CSRF-Token"}};
  document["components"]["schemas"] = schemas();
  return document.dump(2) + "\n";
}

}  // namespace

const std::string& openapi_document() {
  static const std::string document = make_document();
  return document;
}

}  // namespace driftgate::api
