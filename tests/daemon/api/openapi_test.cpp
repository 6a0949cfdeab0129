#include "daemon/api/openapi.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "daemon/api/routes.hpp"

using driftgate::api::openapi_document;
using nlohmann::json;

namespace {

void collect_refs(const json& value, std::set<std::string>& refs) {
  if (value.is_object() && value.contains("$ref")) refs.insert(value["$ref"].get<std::string>());
  for (const json& item : value)
    if (item.is_structured()) collect_refs(item, refs);
}

}  // namespace

TEST_CASE("schema/openapi.json is what 'driftgate openapi' prints") {
  std::ifstream file("schema/openapi.json");
  REQUIRE(file);
  const std::string kept{std::istreambuf_iterator<char>(file), {}};
  CHECK(kept == openapi_document());
}

TEST_CASE("every reference of the OpenAPI document leads somewhere and every component is used") {
  const json document = json::parse(openapi_document());
  std::set<std::string> refs;
  collect_refs(document, refs);
  for (const std::string& ref : refs) {
    CAPTURE(ref);
    CHECK(document.contains(json::json_pointer(ref.substr(1))));
  }
  for (const auto& [name, schema] : document["components"]["schemas"].items()) {
    CAPTURE(name);
    CHECK(refs.contains("#/components/schemas/" + name));
  }
}

TEST_CASE("operation ids are unique and every route is in the document") {
  const json document = json::parse(openapi_document());
  std::set<std::string_view> ids;
  for (const auto& route : driftgate::api::routes()) {
    CAPTURE(route.id);
    CHECK(ids.insert(route.id).second);
    CHECK(document["paths"].contains(std::string(route.path)));
    CHECK_FALSE(route.answers.empty());
  }
}

TEST_CASE("what changes something takes the token of a session, which signing in does not") {
  const json document = json::parse(openapi_document());
  for (const auto& route : driftgate::api::routes()) {
    CAPTURE(route.id);
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const json operation = document["paths"][std::string(route.path)][method];
    bool taken = false;
    for (const auto& parameter : operation.value("parameters", json::array()))
      taken = taken || (parameter["name"] == "X-CSRF-Token" && parameter["in"] == "header");
    bool session = false;
    for (const auto& scheme : operation["security"]) session = session || scheme.contains("session");
    const bool signs_in = route.id == "openSession";
    CHECK(session == (route.scope.has_value() && !signs_in));
    CHECK(taken == (session && route.method != "GET"));
  }
}
