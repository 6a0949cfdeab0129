#include <fmt/core.h>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::Result;

constexpr int kMaxPages = 200;

/// Posts and prints what was made: the answer, or "<what> <id> …".
int create(const ConnectionArgs& connection, const std::string& target, const Result<std::string>& body,
           std::string_view media_type, const std::function<std::string(const json&)>& sentence) {
  if (!body) return report(body.error());
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->post(target, *body, fresh_idempotency_key(), media_type);
  const auto made = parse_answer(answer);
  if (!made) return report(made.error());
  print_line(connection.json ? *answer : sentence(*made));
  return kExitOk;
}

std::vector<std::string> columns_of(const std::string& collection) {
  if (collection == "contracts") return {"name", "digest"};
  if (collection == "kernels") return {"name", "digest"};
  if (collection == "blocks") return {"id", "kernel", "checkpoint", "promotion", "by", "lifted", "reason"};
  if (collection == "webhooks")
    return {"name", "url", "pending", "delivered", "failed", "dropped", "disabled", "last_error"};
  if (collection == "engines") return {"name", "url", "kernel", "checkpoint"};
  return {"name", "incumbent", "promotion", "hold"};
}

std::string cell_of(const json& item, const std::string& column) {
  const auto found = item.find(column);
  if (found == item.end() || found->is_null()) return "-";
  if (column == "incumbent") return text_of(*found, "engine") + " (" + text_of(*found, "kernel") + ")";
  if (column == "lifted") return "by " + text_of(*found, "by");
  if (column == "hold" || column == "disabled") return text_of(*found, "reason");
  return plain_text(*found);
}

/// Every item of a paged collection.
Result<json> all_items(Client& client, const std::string& collection) {
  json items = json::array();
  std::string after;
  for (int page_number = 0; page_number < kMaxPages; ++page_number) {
    // Webhooks come all at once: there are a few, from the settings.
    std::string target = "/v1/" + collection + (collection == "webhooks" ? "" : "?limit=500");
    if (!after.empty()) target += "&after=" + net::percent_encode(after);
    const auto page = parse_answer(client.get(target));
    if (!page) return page;
    for (const json& item : member_of(*page, "items")) items.push_back(item);
    after = text_of(*page, "next");
    if (after.empty()) break;
  }
  return items;
}

}  // namespace

int contract_register(const ConnectionArgs& connection, const RegisterFileArgs& args) {
  return create(connection, "/v1/contracts", read_file(args.file), "application/yaml", [](const json& made) {
    return fmt::format("contract {} is registered as {}", text_of(made, "name"), text_of(made, "digest"));
  });
}

int kernel_register(const ConnectionArgs& connection, const RegisterFileArgs& args) {
  return create(connection, "/v1/kernels", read_file(args.file), "application/json", [](const json& made) {
    return fmt::format("kernel {} is registered as {}", text_of(made, "name"), text_of(made, "digest"));
  });
}

int engine_register(const ConnectionArgs& connection, const EngineArgs& args) {
  json checkpoint = json::object();
  if (!args.checkpoint_uri.empty()) checkpoint["uri"] = args.checkpoint_uri;
  if (!args.checkpoint_digest.empty()) checkpoint["digest"] = args.checkpoint_digest;
  json body{{"name", args.name}, {"url", args.url}, {"kernel", args.kernel}, {"checkpoint", checkpoint}};
  if (args.max_requests_per_second > 0) body["max_requests_per_second"] = args.max_requests_per_second;
  return create(connection, "/v1/engines", body.dump(), "application/json", [](const json& made) {
    std::string out =
        fmt::format("engine {} at {} is registered", text_of(made, "name"), text_of(made, "url"));
    const json abilities = member_of(made, "abilities");
    for (const json& note : member_of(abilities, "notes")) out += "\n  " + plain_text(note);
    return out;
  });
}

int model_create(const ConnectionArgs& connection, const ModelArgs& args) {
  const json body{{"name", args.name}, {"engine", args.engine}, {"reason", args.reason}};
  return create(connection, "/v1/models", body.dump(), "application/json", [](const json& made) {
    return fmt::format("model {} is served by engine {} (no claim of conformity)", text_of(made, "name"),
                       text_of(member_of(made, "incumbent"), "engine"));
  });
}

int model_lift_hold(const ConnectionArgs& connection, const std::string& name, const std::string& reason) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->post(fmt::format("/v1/models/{}/lift-hold", net::percent_encode(name)),
                                   json{{"reason", reason}}.dump());
  if (!answer) return report(answer.error());
  print_line(connection.json ? *answer : fmt::format("the hold on model {} is lifted", name));
  return kExitOk;
}

int list_resources(const ConnectionArgs& connection, const std::string& collection) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto items = all_items(*client, collection);
  if (!items) return report(items.error());
  if (connection.json) {
    print_line(json{{"items", *items}}.dump());
    return kExitOk;
  }
  const std::vector<std::string> columns = columns_of(collection);
  std::vector<std::vector<std::string>> rows;
  for (const json& item : *items) {
    std::vector<std::string> row;
    for (const std::string& column : columns) row.push_back(cell_of(item, column));
    rows.push_back(std::move(row));
  }
  print(rows.empty() ? fmt::format("There are no {} yet.\n", collection) : format_table(columns, rows));
  return kExitOk;
}

}  // namespace driftgate::cli
