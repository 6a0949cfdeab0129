#pragma once

#include <string>

#include "schema/verdict.hpp"

namespace driftgate::stages {

/// What would turn this verdict into a pass, from its recorded numbers alone: less drift (with the figure to
/// reach), more data (with the approximate amount), another limit (one that these data keep), or a repair.
/// Empty for a pass with proof.
[[nodiscard]] std::string advice(const schema::ClauseVerdict& verdict);

}  // namespace driftgate::stages
