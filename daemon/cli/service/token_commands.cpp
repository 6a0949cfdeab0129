#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::ErrorCode;

std::string time_or_dash(const json& token, std::string_view member) {
  const std::int64_t time_us = base::integer_at(token, member);
  return time_us == 0 ? "-" : format_time(time_us);
}

/// Writes a secret into a new file that only its owner may read.
schema::Result<void> write_secret(const std::string& path, const std::string& secret) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    return schema::fail(ErrorCode::io, fmt::format("cannot create '{}': {}", path, std::strerror(errno)));
  const std::string line = secret + "\n";
  const bool written = ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const bool closed = ::close(fd) == 0;
  if (written && closed) return {};
  return schema::fail(ErrorCode::io, fmt::format("cannot write '{}'", path));
}

}  // namespace

int token_issue(const ConnectionArgs& connection, const TokenArgs& args) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  json body{{"name", args.name}, {"scopes", args.scopes}};
  if (args.expires_in_s > 0) body["expires_in_s"] = args.expires_in_s;
  const auto answer = client->post("/v1/tokens", body.dump());
  const auto issued = parse_answer(answer);
  if (!issued) return report(issued.error());
  const std::string bearer = text_of(*issued, "bearer");
  if (args.out.empty()) {
    print_line(connection.json ? *answer : bearer);
    return kExitOk;
  }
  const auto written = write_secret(args.out, bearer);
  if (!written) {
    const std::string id = text_of(*issued, "id");
    static_cast<void>(client->remove("/v1/tokens/" + net::percent_encode(id)));
    return report(written.error());
  }
  json shown = *issued;
  shown.erase("bearer");
  print_line(connection.json
                 ? shown.dump()
                 : fmt::format("token {} for {} is in {}", text_of(shown, "id"), args.name, args.out));
  return kExitOk;
}

int token_list(const ConnectionArgs& connection) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->get("/v1/tokens");
  const auto page = parse_answer(answer);
  if (!page) return report(page.error());
  if (connection.json) {
    print_line(*answer);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const json& token : member_of(*page, "items")) {
    std::string scopes;
    for (const json& scope : member_of(token, "scopes"))
      scopes += (scopes.empty() ? "" : ",") + plain_text(scope);
    rows.push_back({text_of(token, "id"), text_of(token, "name"), scopes, text_of(token, "granted_by"),
                    time_or_dash(token, "created_us"), time_or_dash(token, "expires_us"),
                    time_or_dash(token, "revoked_us")});
  }
  print(format_table({"id", "name", "scopes", "granted by", "created", "expires", "revoked"}, rows));
  return kExitOk;
}

int token_revoke(const ConnectionArgs& connection, const std::string& id) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->remove("/v1/tokens/" + net::percent_encode(id));
  if (!answer) return report(answer.error());
  print_line(connection.json ? json{{"revoked", id}}.dump() : fmt::format("token {} is revoked", id));
  return kExitOk;
}

}  // namespace driftgate::cli
