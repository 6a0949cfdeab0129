#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"

namespace driftgate::cli {

int backup(const ConnectionArgs& connection, const std::string& name) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  client->allow(kLongAnswer);
  const nlohmann::json body = name.empty() ? nlohmann::json::object() : nlohmann::json{{"name", name}};
  const auto text = client->post("/v1/backups", body.dump());
  const auto answer = parse_answer(text);
  if (!answer) return report(answer.error());
  print_line(connection.json
                 ? *text
                 : fmt::format("{} holds a log with {} entries and its signed head; keys are not in it",
                               text_of(*answer, "folder"), integer_of(*answer, "tree_size")));
  return kExitOk;
}

}  // namespace driftgate::cli
