#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace driftgate::api {

/// What everybody may see of an entry about states and shares: kinds state_changed, route_desired and
/// route_applied, without actor and reason, and with the body's from, to, stage, attempt and traffic, or its
/// candidate_bp. Nothing of other kinds.
[[nodiscard]] std::optional<nlohmann::json> shown_of_states(std::string_view kind,
                                                            const nlohmann::json& entry);

/// The same of every kind that tells what becomes of models and promotions: of kinds other than those above
/// with an empty body. Nothing of kinds that tell of tokens, and of who read what.
[[nodiscard]] std::optional<nlohmann::json> shown_to_all(std::string_view kind, const nlohmann::json& entry);

}  // namespace driftgate::api
