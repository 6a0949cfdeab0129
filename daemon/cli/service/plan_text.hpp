#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace driftgate::cli {

/// The answer of `promote --dry-run` for people: whether it would start, what each stage would decide and
/// how much each clause needs for it, and which clauses the corpora given cannot decide.
[[nodiscard]] std::string plan_text(const nlohmann::json& plan);

}  // namespace driftgate::cli
