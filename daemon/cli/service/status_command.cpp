#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/live/status_lines.hpp"
#include "daemon/cli/live/terminal.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/service/guard_text.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

constexpr const char* kNoModels =
    "There are no models yet: driftgate model create NAME --engine E --reason …";
constexpr int kMostPages = 100;

std::string share_text(const json& model) {
  const json route = member_of(model, "route");
  json observed = member_of(route, "observed");
  if (!observed.is_object()) return "-";
  if (observed.contains("route")) observed = member_of(observed, "route");
  return fmt::format("{}%", static_cast<double>(base::integer_at(observed, "candidate_bp")) / 100.0);
}

std::vector<std::string> model_row(Client& client, const json& model) {
  const std::string id = text_of(model, "promotion");
  std::string standing = "-";
  if (!id.empty()) {
    const auto promotion = parse_answer(client.get(promotion_path(id)));
    if (promotion) standing = progress_line(*promotion);
  }
  const json hold = member_of(model, "hold");
  return {text_of(model, "name"), text_of(member_of(model, "incumbent"), "engine"),
          id.empty() ? "-" : id,  standing,
          share_text(model),      hold.is_object() ? text_of(hold, "reason") : "-"};
}

std::string models_text(Client& client, const json& page) {
  return items_table(
      page, {"model", "incumbent", "promotion", "standing", "candidate", "hold"},
      [&client](const json& model) { return model_row(client, model); }, kNoModels);
}

/// Every page of GET /v1/status as one answer.
schema::Result<json> whole_status(Client& client) {
  auto answer = TRY(parse_answer(client.get("/v1/status?limit=500")));
  json items = member_of(answer, "items");
  std::string next = base::text_at(answer, "next");
  for (int pages = 1; !next.empty() && pages < kMostPages; ++pages) {
    const auto page =
        TRY(parse_answer(client.get("/v1/status?limit=500&after=" + net::percent_encode(next))));
    for (const json& item : member_of(page, "items")) items.push_back(item);
    const std::string before = std::exchange(next, base::text_at(page, "next"));
    if (next == before) break;
  }
  answer["items"] = std::move(items);
  answer.erase("next");
  return answer;
}

/// The same from a daemon that has no such operation: of the models and of the promotion that each has.
schema::Result<json> status_of_models(Client& client, const json& page) {
  json items = json::array();
  for (const json& model : member_of(page, "items")) {
    const std::string id = text_of(model, "promotion");
    json promotion = nullptr;
    if (!id.empty()) promotion = parse_answer(client.get(promotion_path(id))).value_or(json(nullptr));
    items.push_back({{"model", member_of(model, "name")},
                     {"incumbent", member_of(model, "incumbent")},
                     {"hold", member_of(model, "hold")},
                     {"guard", member_of(model, "guard")},
                     {"route_agrees", member_of(member_of(model, "route"), "agree")},
                     {"promotion", std::move(promotion)}});
  }
  return json{{"items", std::move(items)}};
}

/// A row of the plain table, which has the same columns whichever daemon answers.
std::vector<std::string> plain_row(const json& item) {
  const json promotion = member_of(item, "promotion"), hold = member_of(item, "hold");
  const bool has = promotion.is_object();
  const json* share = base::member(promotion, "share_bp");
  return {text_of(item, "model"),
          text_of(member_of(item, "incumbent"), "engine"),
          has ? text_of(promotion, "id") : "-",
          has ? progress_line(promotion) : "-",
          share == nullptr ? "-" : fmt::format("{}%", number_of(promotion, "share_bp", 0) / 100.0),
          hold.is_object() ? text_of(hold, "reason") : "-"};
}

void draw_status(const json& answer) {
  const live::Shape shape = live::terminal_shape();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  for (const live::Line& line : live::status_lines(answer, shape.columns, now_us))
    print(live::painted(line, shape.columns, shape.colour) + "\n");
}

schema::Result<int> status_of_all(const ConnectionArgs& connection, Client& client) {
  const bool draws = !connection.json && !connection.plain && live::can_draw();
  auto answer = whole_status(client);
  if (!answer && answer.error().code == schema::ErrorCode::not_found) {
    if (connection.json)
      return schema::fail(schema::ErrorCode::unsupported,
                          "the daemon is older than this command and has no GET /v1/status, which "
                          "`status --json` prints: update the daemon, or ask it for GET /v1/models");
    const auto models = client.get("/v1/models?limit=500");
    if (!draws)
      return print_answer(connection, models, [&](const json& page) { return models_text(client, page); });
    const auto page = TRY(parse_answer(models));
    answer = status_of_models(client, page);
  }
  if (!answer) return std::unexpected(answer.error());
  const json items = member_of(*answer, "items");
  if (!draws || !items.is_array() || items.empty()) {
    return print_answer(connection, answer->dump(), [](const json& shown) {
      return items_table(shown, {"model", "incumbent", "promotion", "standing", "candidate", "hold"},
                         plain_row, kNoModels);
    });
  }
  draw_status(*answer);
  return kExitOk;
}

std::string model_text(const json& model) {
  std::string out = fmt::format("model {}\n", text_of(model, "name"));
  const json incumbent = member_of(model, "incumbent");
  out += fmt::format("  incumbent   {} (kernel {}, {})\n", text_of(incumbent, "engine"),
                     text_of(incumbent, "kernel"), text_of(incumbent, "url"));
  const std::string promotion = text_of(model, "promotion");
  out += fmt::format("  promotion   {}\n", promotion.empty() ? "none" : promotion);
  const json hold = member_of(model, "hold");
  if (hold.is_object())
    out += fmt::format("  hold        {} (lift it: driftgate model lift-hold {} --reason …)\n",
                       text_of(hold, "reason"), text_of(model, "name"));
  const json route = member_of(model, "route");
  if (route.is_object())
    out += fmt::format("  route       candidate {}, {}\n", share_text(model),
                       is_true(route, "agree") ? "read back as desired" : "NOT yet read back as desired");
  return out + guard_text(model);
}

}  // namespace

void add_plain_option(CLI::App& sub, ConnectionArgs& into) {
  sub.add_flag("--plain", into.plain, "On a terminal too, print lines as they are printed into a file");
}

void add_until_option(CLI::App& sub, ConnectionArgs& into) {
  sub.add_option("--until", into.until,
                 "Follow it until it is in this state, such as awaiting_approval, or ended; exit code 0 then")
      ->check(CLI::IsMember({"queued", "running", "paused", "awaiting_approval", "inconclusive",
                             "rolling_back", "finalizing", "succeeded", "rejected", "errored", "aborted",
                             "expired", "superseded"}));
}

int status(const ConnectionArgs& connection, const std::string& subject) {
  return with_daemon(connection, [&](Client& client) {
    if (subject.empty()) return status_of_all(connection, client);
    if (is_promotion_id(subject))
      return print_answer(connection, client.get(promotion_path(subject)), promotion_text);
    return print_answer(connection, client.get("/v1/models/" + net::percent_encode(subject)), model_text);
  });
}

}  // namespace driftgate::cli
