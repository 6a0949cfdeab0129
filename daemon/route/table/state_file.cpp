#include "daemon/route/table/state_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/route/control/unique_fd.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/table/route_table.hpp"

namespace driftgate::route {
namespace {

constexpr std::uint64_t kStateVersion = 1;

std::unexpected<schema::Error> failed(std::string_view what, const std::string& path) {
  const auto code = errno == ENOSPC ? schema::ErrorCode::storage_full : schema::ErrorCode::io;
  return schema::fail(code, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

schema::Result<void> write_durably(const std::string& path, std::string_view text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return failed("open", path);
  while (!text.empty()) {
    const auto written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write", path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file.get()) != 0) return failed("fsync", path);
  return {};
}

std::unexpected<schema::Error> corrupt(const std::string& path, std::string_view why) {
  return schema::fail(schema::ErrorCode::corrupt, fmt::format("state file {} is not usable: {}", path, why));
}

}  // namespace

schema::Result<void> save_state(const std::string& path, const std::vector<ModelRoute>& routes) {
  auto list = nlohmann::json::array();
  for (const auto& route : routes) list.push_back(to_json(route));
  const nlohmann::json state = {{"version", kStateVersion}, {"routes", std::move(list)}};
  const auto beside = path + ".new";
  const auto text = state.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (auto written = write_durably(beside, text); !written) return written;
  if (std::rename(beside.c_str(), path.c_str()) != 0) return failed("rename", beside);
  const auto parent = std::filesystem::path(path).parent_path();
  const auto folder = (parent.empty() ? std::filesystem::path(".") : parent).string();
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened || ::fsync(opened.get()) != 0) return failed("fsync", folder);
  return {};
}

schema::Result<std::vector<ModelRoute>> load_state(const std::string& path) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(path, missing);
  if (missing == std::errc::no_such_file_or_directory) return std::vector<ModelRoute>{};
  if (missing)
    return schema::fail(schema::ErrorCode::io, fmt::format("cannot read {}: {}", path, missing.message()));
  if (size > kMaxStateBytes) return corrupt(path, "it is larger than any state");
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto state = parse_json(text);
  if (!state || !state->is_object() || state->value("version", std::uint64_t{0}) != kStateVersion ||
      !state->contains("routes") || !(*state)["routes"].is_array()) {
    return corrupt(path, "it is not a state of version 1");
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
