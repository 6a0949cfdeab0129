#pragma once

#include <string>

#include "schema/verdict.hpp"

namespace driftgate::stages {

/// What would have to change for this verdict to be a pass: less drift (to which figure), more data (about
/// how much), another limit (which one these data would keep), or a repair. Made from the recorded numbers
/// alone. Empty for a pass with proof.
[[nodiscard]] std::string advice(const schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
