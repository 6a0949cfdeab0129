#pragma once

#include <string>

namespace driftgate::api {

/// The OpenAPI 3.1 document made from the route table and the component schemas, two-space indented: what
/// /openapi.json serves and schema/openapi.json keeps.
[[nodiscard]] const std::string& openapi_document();

}  // namespace driftgate::api
