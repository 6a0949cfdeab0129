#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace driftgate::schema {

/// A document as YAML for people to read: members in the order in which contracts are usually written, then
/// by name; what fits on a line is on one. Text is quoted where it could be read as something else:
/// read_document reads the same document back. Precondition: no number in it is infinite or NaN.
[[nodiscard]] std::string yaml_text(const nlohmann::json& document);

}  // namespace driftgate::schema
