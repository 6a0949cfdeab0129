#pragma once

#include <string_view>

namespace driftgate::api {

/// The `components.schemas` of the OpenAPI document as JSON text: every body that the API takes or gives.
/// Objects are open: members may be added within v1, none goes.
[[nodiscard]] std::string_view component_schemas();

}  // namespace driftgate::api
