#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "daemon/cli/audit/audit_query_command.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/time_text.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

constexpr std::uint64_t kPage = 500;

/// "name=value&" for each filter that is given.
std::string query_of(const AuditArgs& args) {
  std::string query;
  for (const EntryFilter& filter : kEntryFilters) {
    const std::string& value = args.*filter.member;
    if (!value.empty()) query += fmt::format("{}={}&", filter.name, net::percent_encode(value));
  }
  if (args.newest) query += "order=newest&";
  return query;
}

/// Adds the range of time; --from and --to are µs or "2026-01-31[T12:00:05]" in UTC.
schema::Result<void> add_times(std::string& query, const AuditArgs& args) {
  for (const auto& [name, text] : {std::pair{"from_us", &args.from}, std::pair{"to_us", &args.to}}) {
    if (text->empty()) continue;
    const auto time_us = TRY(parse_time(*text));
    query += fmt::format("{}={}&", name, time_us);
  }
  return {};
}

std::string line_of(const json& entry) {
  return fmt::format("{:>6}  {}", base::integer_at(entry, "seq"), entry_line(entry));
}

/// Asks for one page after the other and prints each item, `limit` items at most. Returns the last page.
schema::Result<json> walk(const ConnectionArgs& connection, Client& client, const std::string& target,
                          std::uint64_t limit, const TextOf& line) {
  std::string after;
  json page;
  for (std::uint64_t left = limit; left > 0;) {
    std::string next_target = fmt::format("{}limit={}", target, std::min(left, kPage));
    if (!after.empty()) next_target += "&after=" + net::percent_encode(after);
    auto answer = TRY(parse_answer(client.get(next_target)));
    page = std::move(answer);
    const json items = member_of(page, "items");
    for (const json& item : items) print_line(connection.json ? item.dump() : line(item));
    left -= std::min<std::uint64_t>(left, items.size());
    // An empty page need not be the last one; a page that names itself as the next would be read forever.
    const std::string next = text_of(page, "next");
    if (next.empty() || next == after) break;
    after = next;
  }
  return page;
}

/// Walks through a range of time, and prints the size of the log and the proof of completeness, if any.
int audit_walk(const ConnectionArgs& connection, const AuditArgs& args, const std::string& path,
               std::string query, const TextOf& line) {
  const auto timed = add_times(query, args);
  if (!timed) return report(timed.error());
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    const auto last = TRY(walk(connection, client, path + "?" + query, args.limit, line));
    const json* const proof = base::member(last, "completeness");
    if (connection.json) {
      if (proof != nullptr) print_line(proof->dump());
      return kExitOk;
    }
    print_line(fmt::format("of a log with {} entries", base::integer_at(last, "tree_size")));
    if (proof == nullptr) return kExitOk;
    print_line(
        fmt::format("every entry of this range of time is one of {} to {}; --json ends with the signed heads "
                    "of both sizes "
                    "and the proof that one continues the other",
                    base::integer_at(*proof, "from_size"), base::integer_at(*proof, "to_size") - 1));
    return kExitOk;
  });
}

std::string population_line(const json& item) {
  return fmt::format(
      "{:>6}  {}  {:<9}  {}  {}  {}", base::integer_at(item, "seq"),
      format_time(base::integer_at(item, "time_us")), text_of(item, "how"), text_of(item, "model"),
      text_of(item, "how") == "route" ? fmt::format("{} {} without a promotion that allowed it",
                                                    text_of(item, "role"), text_of(item, "version"))
                                      : text_of(item, "promotion"),
      text_of(item, "checkpoint"));
}

std::string place_text(const json& place) {
  if (!place.is_object()) return "unknown";
  return fmt::format("{} (entry {})", format_time(base::integer_at(place, "time_us")),
                     base::integer_at(place, "seq"));
}

std::string list_of_seqs(const json& items) {
  std::string out;
  for (const json& item : items)
    out += fmt::format("{}{}", out.empty() ? "" : ", ", base::integer_at(item, "seq"));
  return out.empty() ? "none" : out;
}

std::string origin_text(const json& origin) {
  if (!origin.is_object()) return "    origin: not in the log\n";
  if (text_of(origin, "how") == "bootstrap") {
    return fmt::format("    installed without a promotion by {} (entry {}): {}\n    checkpoint {}\n",
                       text_of(origin, "actor"), base::integer_at(origin, "seq"), text_of(origin, "reason"),
                       text_of(origin, "checkpoint"));
  }
  std::string out = fmt::format(
      "    promotion {}, requested by {} on {}\n    contract {}\n    checkpoint {}\n",
      text_of(origin, "promotion"), text_of(origin, "requester"), place_text(member_of(origin, "requested")),
      text_of(origin, "contract"), text_of(origin, "checkpoint"));
  const json state = member_of(origin, "state");
  if (state.is_object()) out += fmt::format("    {} on {}\n", text_of(state, "state"), place_text(state));
  for (const json& verdict : member_of(origin, "verdicts")) {
    const bool whole = text_of(verdict, "scope") == "stage";
    out +=
        fmt::format("    {:>6}  {}  {} {}{}{}\n", base::integer_at(verdict, "seq"), text_of(verdict, "stage"),
                    text_of(verdict, "verdict"), whole ? "the stage" : text_of(verdict, "clause"),
                    text_of(verdict, "slice").empty() ? "" : " on ", text_of(verdict, "slice"));
  }
  return out + fmt::format("    approvals: entries {}; waivers: entries {}\n",
                           list_of_seqs(member_of(origin, "approvals")),
                           list_of_seqs(member_of(origin, "waivers")));
}

std::string served_text(const json& answer) {
  std::string out = fmt::format("{} at {}: route applied {}, of a log with {} entries\n",
                                text_of(answer, "model"), format_time(base::integer_at(answer, "time_us")),
                                place_text(member_of(answer, "applied")), base::integer_at(answer, "tree_size"));
  for (const json& arm : member_of(answer, "served")) {
    if (!arm.is_object()) continue;
    out += fmt::format("  {} {} on kernel {}: {}% of requests, since {}\n", text_of(arm, "role"),
                       text_of(arm, "version"), text_of(arm, "kernel"),
                       static_cast<double>(base::integer_at(arm, "share_bp")) / 100.0,
                       place_text(member_of(arm, "since")));
    if (!is_true(arm, "allowed")) out += "    WITHOUT a promotion that allowed it\n";
    out += origin_text(member_of(arm, "origin"));
  }
  return out;
}

std::string sample_text(const json& sample, const std::string& seed) {
  std::string out;
  for (const json& item : member_of(sample, "items")) out += line_of(member_of(item, "entry")) + "\n";
  return out + fmt::format("drawn from {} of the first {} entries by SHA-256(\"{}:\" seq)\n",
                           base::integer_at(sample, "population"), base::integer_at(sample, "size"), seed);
}

}  // namespace

int evidence(const ConnectionArgs& connection, const std::string& seq, const AuditArgs& args) {
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    if (seq.empty()) {
      TRY(walk(connection, client, "/v1/evidence?" + query_of(args), args.limit, line_of));
    } else {
      const auto entry = TRY(client.get("/v1/evidence/" + net::percent_encode(seq)));
      print_line(entry);
    }
    return kExitOk;
  });
}

int audit_query(const ConnectionArgs& connection, const AuditArgs& args) {
  return audit_walk(connection, args, "/v1/evidence", query_of(args), line_of);
}

int audit_at(const ConnectionArgs& connection, const AuditArgs& args) {
  const auto time_us = parse_time(args.at);
  if (!time_us) return report(time_us.error());
  const std::string target =
      fmt::format("/v1/audit/at?model={}&time_us={}", net::percent_encode(args.model), *time_us);
  return ask(
      connection, [&](Client& client) { return client.get(target); }, served_text);
}

int audit_population(const ConnectionArgs& connection, const AuditArgs& args) {
  return audit_walk(connection, args, "/v1/audit/population", query_of(args), population_line);
}

int audit_exceptions(const ConnectionArgs& connection, const AuditArgs& args) {
  return audit_walk(connection, args, "/v1/audit/exceptions", query_of(args), line_of);
}

int audit_sample(const ConnectionArgs& connection, const AuditArgs& args) {
  std::string query =
      query_of(args) + fmt::format("seed={}&count={}&", net::percent_encode(args.seed), args.count);
  if (args.size > 0) query += fmt::format("size={}&", args.size);
  const auto timed = add_times(query, args);
  if (!timed) return report(timed.error());
  query.pop_back();
  return ask(
      connection, [&](Client& client) { return client.get("/v1/audit/sample?" + query); },
      [&](const json& sample) { return sample_text(sample, args.seed); });
}

}  // namespace driftgate::cli
