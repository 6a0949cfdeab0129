#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "daemon/cli/live/promotion_picture.hpp"

namespace driftgate::cli::live {

/// What people can do about a promotion: from its `needs`, or where the daemon does not tell them, from what
/// it waits for.
[[nodiscard]] std::vector<Need> needs_of(const nlohmann::json& promotion);

}  // namespace driftgate::cli::live
