// The only file with valijson: it takes long to compile.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "daemon/api/openapi.hpp"
#include "fixture.hpp"

namespace driftgate::api::test {
namespace {

using nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

std::string check(const std::string& component, const std::string& body) {
  static const json document = json::parse(openapi_document());
  json wrapper{{"$ref", "#/components/schemas/" + component}};
  wrapper["components"] = document["components"];
  const json value = json::parse(body, nullptr, false);
  if (value.is_discarded()) return "the body is not JSON";
  valijson::Schema schema;
  valijson::SchemaParser parser;
  parser.populateSchema(Adapter(wrapper), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, Adapter(value), &results)) return "";
  valijson::ValidationResults::Error error;
  std::string text = component + ":";
  while (results.popError(error)) {
    for (const std::string& part : error.context) text += part;
    text += " " + error.description;
  }
  return text;
}

}  // namespace

std::string nonconformity(const Route* route, const net::Response& response) {
  const std::string type = header_of(response, "content-type");
  if (response.status >= 400 && type == "application/problem+json") return check("Problem", response.body);
  if (route == nullptr) return "an answer that is no problem for a path that does not exist";
  const auto fits = [&response](const Answer& answer) { return answer.status == response.status; };
  const auto answer = std::ranges::find_if(route->answers, fits);
  if (answer == route->answers.end())
    return fmt::format("status {} is not documented for {}", response.status, route->id);
  if (answer->status == 204) return response.body.empty() ? "" : "a 204 with a body";
  if (!type.starts_with(answer->media_type)) return fmt::format("media type '{}' is not documented", type);
  return answer->schema.empty() ? "" : check(std::string(answer->schema), response.body);
}

}  // namespace driftgate::api::test
