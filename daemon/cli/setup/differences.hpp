#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace driftgate::cli {

/// How a document becomes another one, in words: a line for each member that differs, such as
/// "captures.numeric.corpus: \"/a.jsonl\" becomes \"/b.jsonl\"", "fallback_engine: \"f32\" is new", "note:
/// \"x\" is removed". Items of lists are numbered from 1.
[[nodiscard]] std::vector<std::string> differences_of(const nlohmann::json& before,
                                                      const nlohmann::json& after);

}  // namespace driftgate::cli
