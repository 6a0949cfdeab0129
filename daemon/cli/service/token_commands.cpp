#include <fmt/core.h>

#include "daemon/base/durable_file.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

std::string time_or_dash(const json& token, std::string_view member) {
  const std::int64_t time_us = base::integer_at(token, member);
  return time_us == 0 ? "-" : format_time(time_us);
}

std::string token_path(const std::string& id) {
  return "/v1/tokens/" + net::percent_encode(id);
}

std::vector<std::string> token_row(const json& token) {
  std::string scopes;
  for (const json& scope : member_of(token, "scopes"))
    scopes += (scopes.empty() ? "" : ",") + plain_text(scope);
  return {text_of(token, "id"),
          text_of(token, "name"),
          scopes,
          text_of(token, "granted_by"),
          time_or_dash(token, "created_us"),
          time_or_dash(token, "expires_us"),
          time_or_dash(token, "revoked_us")};
}

}  // namespace

int token_issue(const ConnectionArgs& connection, const TokenArgs& args) {
  json body{{"name", args.name}, {"scopes", args.scopes}};
  if (args.expires_in_s > 0) body["expires_in_s"] = args.expires_in_s;
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    const auto answer = client.post("/v1/tokens", body.dump());
    if (args.out.empty())
      return print_answer(connection, answer, [](const json& issued) { return text_of(issued, "bearer"); });
    json issued = TRY(parse_answer(answer));
    const std::string id = text_of(issued, "id");
    const auto written =
        base::write_file_durably(args.out, text_of(issued, "bearer") + "\n", 0600, base::IfPresent::refuse);
    if (!written) {
      static_cast<void>(client.remove(token_path(id)));
      return schema::fail(schema::ErrorCode::io, written.error().message);
    }
    issued.erase("bearer");
    print_line(connection.json ? issued.dump()
                               : fmt::format("token {} for {} is in {}", id, args.name, args.out));
    return kExitOk;
  });
}

int token_list(const ConnectionArgs& connection) {
  return ask(
      connection, [](Client& client) { return client.get("/v1/tokens"); },
      [](const json& page) {
        return items_table(page, {"id", "name", "scopes", "granted by", "created", "expires", "revoked"},
                           token_row, "There are no tokens.");
      });
}

int token_revoke(const ConnectionArgs& connection, const std::string& id) {
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    TRY(client.remove(token_path(id)));
    print_line(connection.json ? json{{"revoked", id}}.dump() : fmt::format("token {} is revoked", id));
    return kExitOk;
  });
}

}  // namespace driftgate::cli
