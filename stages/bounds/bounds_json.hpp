#pragma once

#include <string>
#include <vector>

#include "stages/bounds/bounds.hpp"

namespace driftgate::stages {

/// The chains as a JSON list, one object for the corpus and each slice: `where`, `rows`, `sequences`,
/// `refused`, `links[]`. A link has `number`, `name`, `horizon`, `inputs`, `alpha`, `clusters`, `method`,
/// `approximate`, `assumption`, `status`, and where they exist `bound`, `value`, `upper`, `from`, `floor`.
/// Numbers that are not finite are the strings of docs/design/measurement.md, "Numbers that are not finite".
[[nodiscard]] std::string bounds_json(const std::vector<BoundChain>& chains);

}  // namespace driftgate::stages
