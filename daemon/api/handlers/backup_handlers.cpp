#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "daemon/api/body.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;

constexpr std::size_t kMaxNameBytes = 100;

/// "20260131T120005Z"
std::string name_of(std::int64_t now_us) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(static_cast<std::time_t>(now_us / 1'000'000)));
}

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, allowed);
}

schema::Result<std::string> requested_name(const Call& call, std::int64_t now_us) {
  if (call.request.body.empty()) return name_of(now_us);
  const auto body = TRY(parse_body(call.request.body, {"name"}));
  const auto name = body.find("name");
  if (name == body.end()) return name_of(now_us);
  if (!name->is_string() || !is_name(name->get_ref<const std::string&>()))
    return fail(ErrorCode::invalid_document, "'name' must have 1 to 100 letters, digits, '-' or '_'",
                "/name");
  return name->get<std::string>();
}

Reply post_backup(Context& context, const Call& call) {
  const auto name = TRY(requested_name(call, context.now_us()));
  if (!context.backup) return fail(ErrorCode::unsupported, "This daemon cannot make backups.");
  TRY(context.evidence.note_read(call.principal.name, "backup " + name));
  const auto made = TRY(context.backup(name));
  return json_response(201, json{{"name", name},
                                 {"folder", made.folder.string()},
                                 {"tree_size", made.tree_size},
                                 {"checkpoint", made.head}}
                                .dump());
}

}  // namespace

void add_backup_routes(std::vector<Route>& list) {
  RouteGroup system(list, "system");
  system
      .post("/v1/backups", "makeBackup", "Copy the database and the signed head into the backup folder",
            Scope::operator_, post_backup)
      .body("BackupRequest")
      .lane(net::Lane::long_running)
      .answer(201, "Backup", "made");
}

}  // namespace driftgate::api
