#pragma once

#include <string>
#include <vector>

#include "daemon/evidence/bundle/verify_bundle.hpp"

namespace driftgate::cli {

/// Decides offline-numeric and statistical-slice again from their measurement table, for
/// evidence::Reevaluate. `unsupported` for the other stages and for verdicts that rest on further tables.
[[nodiscard]] schema::Result<std::vector<schema::ClauseVerdict>> decide_again(
    const std::string& contract, const evidence::StageDecision& decision, const std::string& table);

}  // namespace driftgate::cli
