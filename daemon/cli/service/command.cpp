#include "daemon/cli/service/command.hpp"

#include <fmt/core.h>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {

using nlohmann::json;
using schema::Result;

int with_daemon(const ConnectionArgs& connection, const std::function<Result<int>(Client&)>& command) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto code = command(*client);
  return code ? *code : report(code.error());
}

Result<int> print_answer(const ConnectionArgs& connection, const Result<std::string>& answer,
                         const TextOf& text) {
  const auto parsed = TRY(parse_answer(answer));
  const std::string shown = connection.json ? *answer : text(parsed);
  print(shown.empty() || shown.ends_with('\n') ? shown : shown + "\n");
  return kExitOk;
}

int ask(const ConnectionArgs& connection, const std::function<Result<std::string>(Client&)>& request,
        const TextOf& text) {
  return with_daemon(connection,
                     [&](Client& client) { return print_answer(connection, request(client), text); });
}

std::string items_table(const json& page, const std::vector<std::string>& header,
                        const std::function<std::vector<std::string>(const json&)>& row,
                        const std::string& none) {
  std::vector<std::vector<std::string>> rows;
  for (const json& item : member_of(page, "items")) rows.push_back(row(item));
  return rows.empty() ? none : format_table(header, rows);
}

bool is_promotion_id(std::string_view subject) {
  return subject.starts_with("pr-");
}

namespace {

/// The newest promotion of a model that `filter` leaves, or "".
Result<std::string> newest_promotion(Client& client, const std::string& model, const std::string& filter) {
  const auto page =
      TRY(parse_answer(client.get("/v1/promotions?limit=1&model=" + net::percent_encode(model) + filter)));
  const auto items = member_of(page, "items");
  return items.empty() ? std::string() : text_of(items.front(), "id");
}

/// The promotion that has the model now, others being queued behind it; or "".
Result<std::string> foremost_promotion(Client& client, const std::string& model) {
  const auto answer = client.get("/v1/models/" + net::percent_encode(model));
  if (!answer && answer.error().code == schema::ErrorCode::not_found) return std::string();
  const auto found = TRY(parse_answer(answer));
  return text_of(found, "promotion");
}

}  // namespace

Result<std::string> find_promotion(Client& client, const std::string& subject) {
  if (is_promotion_id(subject)) return subject;
  auto id = TRY(foremost_promotion(client, subject));
  if (id.empty()) id = TRY(newest_promotion(client, subject, ""));
  if (!id.empty()) return id;
  return schema::fail(
      schema::ErrorCode::not_found,
      fmt::format("model '{}' has no promotion: name one (pr-…) or start one with 'driftgate promote'",
                  subject));
}

Result<std::string> find_awaiting_promotion(Client& client, const std::string& subject) {
  if (is_promotion_id(subject)) return subject;
  auto id = TRY(newest_promotion(client, subject, "&state=awaiting_approval"));
  return id.empty() ? find_promotion(client, subject) : id;
}

std::string promotion_path(const std::string& id) {
  return "/v1/promotions/" + net::percent_encode(id);
}

}  // namespace driftgate::cli
