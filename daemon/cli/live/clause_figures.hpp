#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "daemon/cli/live/promotion_picture.hpp"

namespace driftgate::cli::live {

/// The clauses of a promotion: those of the stage that runs with the newest point of its series, and those of
/// each stage that did not pass. What fails comes first, then what is nearest to a level, passes last.
[[nodiscard]] std::vector<ClauseFigure> clause_figures(const nlohmann::json& promotion,
                                                       const nlohmann::json& series);

}  // namespace driftgate::cli::live
