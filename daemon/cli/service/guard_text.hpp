#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace driftgate::cli {

/// Lines on what watches a model since its promotion; "" where it never had a guard.
[[nodiscard]] std::string guard_text(const nlohmann::json& model);

}  // namespace driftgate::cli
