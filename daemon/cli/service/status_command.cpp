#include <fmt/core.h>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/service/guard_text.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

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
      [&client](const json& model) { return model_row(client, model); },
      "There are no models yet: driftgate model create NAME --engine E --reason …");
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

int status(const ConnectionArgs& connection, const std::string& subject) {
  return with_daemon(connection, [&](Client& client) {
    if (subject.empty()) {
      return print_answer(connection, client.get("/v1/models?limit=500"),
                          [&](const json& page) { return models_text(client, page); });
    }
    if (is_promotion_id(subject))
      return print_answer(connection, client.get(promotion_path(subject)), promotion_text);
    return print_answer(connection, client.get("/v1/models/" + net::percent_encode(subject)), model_text);
  });
}

}  // namespace driftgate::cli
