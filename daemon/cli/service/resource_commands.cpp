#include <fmt/core.h>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;
using schema::Result;

constexpr int kMaxPages = 200;

/// Creates something and prints what was made: the answer, or a sentence about it.
int create(const ConnectionArgs& connection, const std::string& target, const Result<std::string>& body,
           std::string_view media_type, const TextOf& sentence) {
  if (!body) return report(body.error());
  return ask(
      connection,
      [&](Client& client) { return client.post(target, *body, fresh_idempotency_key(), media_type); },
      sentence);
}

/// Changes what exists and prints a sentence about it, or the answer.
int post(const ConnectionArgs& connection, const std::string& target, const std::string& body,
         const TextOf& sentence) {
  return ask(
      connection, [&](Client& client) { return client.post(target, body); }, sentence);
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

/// A page with every item of a collection.
Result<json> all_items(Client& client, const std::string& collection) {
  json items = json::array();
  std::string after;
  for (int page_number = 0; page_number < kMaxPages; ++page_number) {
    // Webhooks come all at once: there are a few, from the settings.
    std::string target = "/v1/" + collection + (collection == "webhooks" ? "" : "?limit=500");
    if (!after.empty()) target += "&after=" + net::percent_encode(after);
    const auto page = TRY(parse_answer(client.get(target)));
    for (const json& item : member_of(page, "items")) items.push_back(item);
    after = text_of(page, "next");
    if (after.empty()) break;
  }
  return json{{"items", std::move(items)}};
}

TextOf registered(const char* what) {
  return [what](const json& made) {
    return fmt::format("{} {} is registered as {}", what, text_of(made, "name"), text_of(made, "digest"));
  };
}

}  // namespace

int contract_register(const ConnectionArgs& connection, const RegisterFileArgs& args) {
  return create(connection, "/v1/contracts", read_file(args.file), "application/yaml",
                registered("contract"));
}

int kernel_register(const ConnectionArgs& connection, const RegisterFileArgs& args) {
  return create(connection, "/v1/kernels", read_file(args.file), "application/json", registered("kernel"));
}

int engine_register(const ConnectionArgs& connection, const EngineArgs& args) {
  json checkpoint = json::object();
  if (!args.checkpoint_uri.empty()) checkpoint["uri"] = args.checkpoint_uri;
  if (!args.checkpoint_digest.empty()) checkpoint["digest"] = args.checkpoint_digest;
  json body{{"name", args.name}, {"url", args.url}, {"kernel", args.kernel}, {"checkpoint", checkpoint}};
  if (args.max_requests_per_second > 0) body["max_requests_per_second"] = args.max_requests_per_second;
  for (const auto& [member, text] :
       {std::pair{"key_file", &args.key_file}, std::pair{"key_header", &args.key_header},
        std::pair{"ca_file", &args.ca_file}}) {
    if (!text->empty()) body[member] = *text;
  }
  return create(connection, "/v1/engines", body.dump(), "application/json", [](const json& made) {
    std::string out =
        fmt::format("engine {} at {} is registered", text_of(made, "name"), text_of(made, "url"));
    if (const auto key = text_of(made, "key_file"); !key.empty())
      out += fmt::format("; it gets the key in {} in place of users' own", key);
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
  return post(connection, fmt::format("/v1/models/{}/lift-hold", net::percent_encode(name)),
              json{{"reason", reason}}.dump(),
              [&](const json&) { return fmt::format("the hold on model {} is lifted", name); });
}

int block_lift(const ConnectionArgs& connection, const std::string& id, const std::string& reason) {
  return post(connection, fmt::format("/v1/blocks/{}/lift", net::percent_encode(id)),
              json{{"reason", reason}}.dump(), [&](const json& block) {
                return fmt::format("block {} is lifted: kernel {} can be promoted again under {}", id,
                                   text_of(block, "kernel"), text_of(block, "contract"));
              });
}

int webhook_change(const ConnectionArgs& connection, const std::string& action, const std::string& name) {
  const std::string target = fmt::format("/v1/webhooks/{}/{}", net::percent_encode(name), action);
  return post(connection, target, "", [&](const json&) {
    if (action == "enable") return fmt::format("delivery to webhook {} is enabled again", name);
    return fmt::format(
        "a test message for {} is queued; `driftgate webhook list` shows whether it was delivered", name);
  });
}

int backup(const ConnectionArgs& connection, const std::string& name) {
  const json body = name.empty() ? json::object() : json{{"name", name}};
  const auto make = [&body](Client& client) {
    client.allow(kLongAnswer);
    return client.post("/v1/backups", body.dump());
  };
  return ask(connection, make, [](const json& made) {
    return fmt::format("{} contains a log with {} entries and its signed head; it contains no keys",
                       text_of(made, "folder"), base::integer_at(made, "tree_size"));
  });
}

int list_resources(const ConnectionArgs& connection, const std::string& collection) {
  return with_daemon(connection, [&](Client& client) -> Result<int> {
    const auto page = TRY(all_items(client, collection));
    const std::vector<std::string> columns = columns_of(collection);
    const auto row = [&columns](const json& item) {
      std::vector<std::string> cells;
      for (const std::string& column : columns) cells.push_back(cell_of(item, column));
      return cells;
    };
    return print_answer(connection, page.dump(), [&](const json& shown) {
      return items_table(shown, columns, row, fmt::format("There are no {} yet.", collection));
    });
  });
}

}  // namespace driftgate::cli
