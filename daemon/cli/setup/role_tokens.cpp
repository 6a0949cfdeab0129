#include "daemon/cli/setup/role_tokens.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "daemon/base/durable_file.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/service/client.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using schema::Result;

/// Whether the daemon takes the token in a file. A file that cannot be read has none.
Result<bool> is_taken(const std::string& url, const fs::path& file) {
  auto client = Client::open({.url = url, .token_file = file.string()});
  if (!client) return false;
  const auto answer = client->get("/v1/whoami");
  if (!answer && answer.error().code == schema::ErrorCode::unavailable)
    return std::unexpected(answer.error());
  return answer.has_value();
}

}  // namespace

std::span<const RoleToken> role_tokens() {
  static const std::vector<RoleToken> kRoles{
      {"viewer", {"viewer"}},     {"promoter", {"promoter"}},
      {"operator", {"operator"}}, {"approver", {"approver"}},
      {"auditor", {"auditor"}},   {"engineer", {"promoter", "operator", "auditor"}}};
  return kRoles;
}

fs::path role_token_file(const fs::path& tokens, std::string_view name) {
  return tokens / fmt::format("{}.token", name);
}

Result<void> make_role_tokens(const std::string& url, const fs::path& admin_token, const fs::path& tokens) {
  if (::mkdir(tokens.c_str(), 0700) != 0 && errno != EEXIST) return base::file_failure("make", tokens);
  for (const auto& role : role_tokens()) {
    const fs::path file = role_token_file(tokens, role.name);
    const bool taken = TRY(is_taken(url, file));
    if (taken) continue;
    auto admin = TRY(Client::open({.url = url, .token_file = admin_token.string()}));
    const json body{{"name", role.name}, {"scopes", role.scopes}};
    const auto issued = TRY(parse_answer(admin.post("/v1/tokens", body.dump())));
    TRY(base::write_file_durably(file, text_of(issued, "bearer") + "\n", 0600));
  }
  return {};
}

}  // namespace driftgate::cli
