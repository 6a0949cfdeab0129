#include <fmt/core.h>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {

using nlohmann::json;

int block_lift(const ConnectionArgs& connection, const std::string& id, const std::string& reason) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->post(fmt::format("/v1/blocks/{}/lift", net::percent_encode(id)),
                                   json{{"reason", reason}}.dump());
  const auto block = parse_answer(answer);
  if (!block) return report(block.error());
  print_line(connection.json ? *answer
                             : fmt::format("block {} is lifted: kernel {} may be promoted again under {}", id,
                                           text_of(*block, "kernel"), text_of(*block, "contract")));
  return kExitOk;
}

int webhook_change(const ConnectionArgs& connection, const std::string& action, const std::string& name) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->post(fmt::format("/v1/webhooks/{}/{}", net::percent_encode(name), action), "");
  const auto webhook = parse_answer(answer);
  if (!webhook) return report(webhook.error());
  if (connection.json) {
    print_line(*answer);
  } else if (action == "test") {
    print_line(fmt::format(
        "a test message for {} waits to be sent; `driftgate webhook list` says what became of it", name));
  } else {
    print_line(fmt::format("webhook {} is sent to again", name));
  }
  return kExitOk;
}

}  // namespace driftgate::cli
