#include "daemon/cli/setup/differences.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace driftgate::cli {
namespace {

using nlohmann::json;

class Comparer {
 public:
  void compare(const std::string& at, const json& before, const json& after) {
    if (before == after) return;
    if (before.is_object() && after.is_object()) return members(at, before, after);
    if (before.is_array() && after.is_array() && before.size() == after.size()) {
      for (std::size_t i = 0; i < before.size(); ++i)
        compare(fmt::format("{}[{}]", at, i + 1), before[i], after[i]);
      return;
    }
    lines.push_back(fmt::format("{}{} becomes {}", at.empty() ? "" : at + ": ", before.dump(), after.dump()));
  }

  std::vector<std::string> lines;

 private:
  void members(const std::string& at, const json& before, const json& after) {
    const auto path = [&](const std::string& key) { return at.empty() ? key : at + "." + key; };
    for (const auto& [key, value] : before.items()) {
      if (after.contains(key))
        compare(path(key), value, after[key]);
      else
        lines.push_back(fmt::format("{}: {} is removed", path(key), value.dump()));
    }
    for (const auto& [key, value] : after.items())
      if (!before.contains(key)) lines.push_back(fmt::format("{}: {} is new", path(key), value.dump()));
  }
};

}  // namespace

std::vector<std::string> differences_of(const json& before, const json& after) {
  Comparer comparer;
  comparer.compare("", before, after);
  return std::move(comparer.lines);
}

}  // namespace driftgate::cli
