#pragma once

#include <string>
#include <string_view>

#include "daemon/cli/service/client.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// Promotions are named "pr-…"; everything else is a model's name.
[[nodiscard]] bool is_promotion_id(std::string_view subject);

/// The id itself, or the id of the newest promotion of the model with that name. `not_found` when it has
/// none.
[[nodiscard]] schema::Result<std::string> find_promotion(Client& client, const std::string& subject);

}  // namespace driftgate::cli
