#include <fmt/core.h>

#include <algorithm>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

constexpr std::uint64_t kPage = 500;

std::string query_of(const EvidenceArgs& args) {
  std::string query;
  for (const auto& [name, value] :
       {std::pair{"promotion", &args.promotion}, std::pair{"model", &args.model},
        std::pair{"stage", &args.stage}, std::pair{"kind", &args.kind}, std::pair{"actor", &args.actor},
        std::pair{"clause", &args.clause}, std::pair{"verdict", &args.verdict}})
    if (!value->empty()) query += fmt::format("{}={}&", name, net::percent_encode(*value));
  if (args.newest) query += "order=newest&";
  return query;
}

}  // namespace

int evidence(const ConnectionArgs& connection, const EvidenceArgs& args) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  if (!args.seq.empty()) {
    const auto entry = client->get("/v1/evidence/" + net::percent_encode(args.seq));
    if (!entry) return report(entry.error());
    print_line(*entry);
    return kExitOk;
  }
  const std::string query = query_of(args);
  std::string after;
  for (std::uint64_t left = args.limit; left > 0;) {
    std::string target = fmt::format("/v1/evidence?{}limit={}", query, std::min(left, kPage));
    if (!after.empty()) target += "&after=" + net::percent_encode(after);
    const auto page = parse_answer(client->get(target));
    if (!page) return report(page.error());
    const json items = member_of(*page, "items");
    for (const json& entry : items)
      print_line(connection.json
                     ? entry.dump()
                     : fmt::format("{:>6}  {}", base::integer_at(entry, "seq"), entry_line(entry)));
    left -= std::min<std::uint64_t>(left, items.size());
    after = text_of(*page, "next");
    if (after.empty() || items.empty()) break;
  }
  return kExitOk;
}

}  // namespace driftgate::cli
