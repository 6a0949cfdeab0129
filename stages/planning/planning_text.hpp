#pragma once

#include <string>
#include <vector>

#include "stages/planning/regressions.hpp"

namespace driftgate::stages {

/// What power_at_half found, for people; with `requests_per_second` > 0 also how long it takes at each share
/// of traffic. Empty for no clause.
[[nodiscard]] std::string power_text(const std::vector<ClausePower>& powers, const schema::Contract& contract,
                                     double requests_per_second);

/// The same as a canonical JSON array: {"clause", "stage", "unit", "alpha", "assumes", "why_not", "n",
/// "durations": [{"share_bp", "seconds"}]}.
[[nodiscard]] std::string power_json(const std::vector<ClausePower>& powers, const schema::Contract& contract,
                                     double requests_per_second);

/// What smallest_regressions found, for people. Empty for no test.
[[nodiscard]] std::string regressions_text(const std::vector<SmallestRegression>& regressions);

/// The same as a canonical JSON array: {"clause", "stage", "limit", "slice_share", "unit", "alpha", "in":
/// "own" | "share" | "times", "figure", "assumes": [text], "always", "why_not", "found": [{"exposure",
/// "figure"}]}.
[[nodiscard]] std::string regressions_json(const std::vector<SmallestRegression>& regressions);

}  // namespace driftgate::stages
