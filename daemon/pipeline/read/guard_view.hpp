#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// The newest guard of a model as the JSON that service.hpp describes; null when it never had one.
[[nodiscard]] schema::Result<nlohmann::json> guard_json(store::Reader& reader, const std::string& model);

}  // namespace driftgate::pipeline
