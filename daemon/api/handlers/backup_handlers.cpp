#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/problem.hpp"
#include "schema/json.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;

constexpr std::size_t kMaxNameBytes = 100;

/// "20260131T120005Z"
std::string name_of(std::int64_t now_us) {
  const std::chrono::sys_time<std::chrono::microseconds> now{std::chrono::microseconds(now_us)};
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(now - day));
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

bool is_name(std::string_view text) {
  for (const char c : text) {
    const bool allowed =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!allowed) return false;
  }
  return !text.empty() && text.size() <= kMaxNameBytes;
}

schema::Result<std::string> requested_name(const Call& call, std::int64_t now_us) {
  if (call.request.body.empty()) return name_of(now_us);
  const auto body = schema::parse_json(call.request.body, {}, "the request body");
  if (!body) return std::unexpected(body.error());
  if (!body->is_object()) return fail(ErrorCode::invalid_document, "the request body must be a JSON object");
  for (const auto& [name, value] : body->items())
    if (name != "name")
      return fail(ErrorCode::invalid_document, fmt::format("unknown member '{}'", name),
                  "/" + schema::pointer_token(name));
  const auto name = body->find("name");
  if (name == body->end()) return name_of(now_us);
  if (!name->is_string() || !is_name(name->get_ref<const std::string&>()))
    return fail(ErrorCode::invalid_document, "'name' must have 1 to 100 letters, digits, '-' or '_'",
                "/name");
  return name->get<std::string>();
}

}  // namespace

net::Response post_backup(Context& context, const Call& call) {
  const auto name = requested_name(call, context.now_us());
  if (!name) return problem(name.error());
  if (!context.backup) return problem(ErrorCode::unsupported, "This daemon makes no backups.");
  const auto noted = context.evidence.note_read(call.principal.name, "backup " + *name);
  if (!noted) return problem(noted.error());
  const auto made = context.backup(*name);
  if (!made) return problem(made.error());
  return json_response(201, json{{"name", *name},
                                 {"folder", made->folder.string()},
                                 {"tree_size", made->tree_size},
                                 {"checkpoint", made->head}}
                                .dump());
}

}  // namespace driftgate::api
