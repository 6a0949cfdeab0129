#pragma once

#include <string>
#include <vector>

#include "stages/bounds/bounds.hpp"

namespace driftgate::stages {

/// The chains as a JSON array. Each object has the members `where`, `rows`, `sequences`, `refused` and
/// `links`. A link has `number`, `name`, `horizon`, `inputs`, `alpha`, `clusters`, `method`, `approximate`,
/// `assumption` and `status`, and where they exist `bound`, `value`, `upper`, `from` and `floor`. Numbers
/// that are not finite are strings (docs/design/measurement.md, "Numbers that are not finite").
[[nodiscard]] std::string bounds_json(const std::vector<BoundChain>& chains);

}  // namespace driftgate::stages
