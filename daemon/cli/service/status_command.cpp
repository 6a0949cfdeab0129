#include <fmt/core.h>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/subject.hpp"
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

int all_models(const ConnectionArgs& connection, Client& client) {
  const auto answer = client.get("/v1/models?limit=500");
  const auto page = parse_answer(answer);
  if (!page) return report(page.error());
  if (connection.json) {
    print_line(*answer);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const json& model : member_of(*page, "items")) {
    const std::string id = text_of(model, "promotion");
    std::string standing = "-";
    if (!id.empty()) {
      const auto promotion = parse_answer(client.get("/v1/promotions/" + net::percent_encode(id)));
      if (promotion) standing = progress_line(*promotion);
    }
    const json hold = member_of(model, "hold");
    rows.push_back({text_of(model, "name"), text_of(member_of(model, "incumbent"), "engine"),
                    id.empty() ? "-" : id, standing, share_text(model),
                    hold.is_object() ? text_of(hold, "reason") : "-"});
  }
  print(rows.empty()
            ? "There are no models yet: driftgate model create NAME --engine E --reason …\n"
            : format_table({"model", "incumbent", "promotion", "standing", "candidate", "hold"}, rows));
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
                       is_true(route, "agree") ? "read back as desired" : "NOT read back as desired yet");
  return out;
}

}  // namespace

int status(const ConnectionArgs& connection, const std::string& subject) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  if (subject.empty()) return all_models(connection, *client);
  const bool is_promotion = is_promotion_id(subject);
  const std::string path = (is_promotion ? "/v1/promotions/" : "/v1/models/") + net::percent_encode(subject);
  const auto answer = client->get(path);
  const auto found = parse_answer(answer);
  if (!found) return report(found.error());
  if (connection.json)
    print_line(*answer);
  else
    print(is_promotion ? promotion_text(*found) : model_text(*found));
  return kExitOk;
}

}  // namespace driftgate::cli
