#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "daemon/cli/live/line.hpp"

namespace driftgate::cli::live {

/// The screen of all models, of `items` and `counts` as GET /v1/status gives them: a line for each model,
/// those that need people first, then those with an open promotion, then the others; how many of each in the
/// last line. As wide as `columns` at most, when cut to that.
[[nodiscard]] std::vector<Line> status_lines(const nlohmann::json& answer, std::size_t columns,
                                             std::int64_t now_us);

}  // namespace driftgate::cli::live
