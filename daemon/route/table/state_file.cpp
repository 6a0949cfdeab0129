#include "daemon/route/table/state_file.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/base/durable_file.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/table/route_table.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr std::uint64_t kStateVersion = 1;

std::unexpected<schema::Error> corrupt(const std::string& path, std::string_view why) {
  return schema::failf(schema::ErrorCode::corrupt, "state file {} cannot be used: {}", path, why);
}

}  // namespace

schema::Result<void> save_state(const std::string& path, const std::vector<ModelRoute>& routes) {
  auto list = nlohmann::json::array();
  for (const auto& route : routes) list.push_back(to_json(route));
  const nlohmann::json state = {{"version", kStateVersion}, {"routes", std::move(list)}};
  return base::write_file_durably(path, dumped(state), 0600);
}

schema::Result<std::vector<ModelRoute>> load_state(const std::string& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  if (missing == std::errc::no_such_file_or_directory) return std::vector<ModelRoute>{};
  if (missing) return schema::failf(schema::ErrorCode::io, "cannot read {}: {}", path, missing.message());
  if (size > kMaxStateBytes) return corrupt(path, "it is too large");
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto state = parse_json(text);
  if (!state || !state->is_object() || state->value("version", std::uint64_t{0}) != kStateVersion ||
      !state->contains("routes") || !(*state)["routes"].is_array()) {
    return corrupt(path, "it is not a state file of version 1");
  }
  std::vector<ModelRoute> routes;
  for (const auto& json : (*state)["routes"]) {
    auto route = route_from_json(json);
    if (!route) return corrupt(path, route.error().describe());
    if (auto valid = validate_route(*route); !valid) return corrupt(path, valid.error().describe());
    routes.push_back(std::move(*route));
  }
  return routes;
}

}  // namespace driftgate::route
