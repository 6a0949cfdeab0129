#include "daemon/route/table/access_file.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/route/table/route_json.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {

schema::Result<void> save_access(const std::string& path, const AccessByUrl& access) {
  return base::write_file_durably(path, dumped(to_json(access)), 0600);
}

schema::Result<AccessByUrl> load_access(const std::string& path) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return AccessByUrl{};
  const auto text = TRY(base::read_file(path));
  const auto parsed = parse_json(text);
  auto access =
      parsed ? access_from_json(*parsed) : schema::Result<AccessByUrl>(std::unexpected(parsed.error()));
  if (access) return access;
  return schema::failf(schema::ErrorCode::corrupt, "the file {} cannot be used: {}", path,
                       access.error().describe());
}

}  // namespace driftgate::route
