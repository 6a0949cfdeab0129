#include "daemon/cli/service/schedule_command.hpp"

#include <fmt/core.h>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/net/url.hpp"
#include "schema/json.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

std::string path_of(const std::string& name) {
  return "/v1/schedules/" + net::percent_encode(name);
}

std::string next_text(const json& schedule) {
  if (is_true(schedule, "paused")) return "paused";
  const auto next_us = base::integer_at(schedule, "next_us");
  return next_us == 0 ? "never" : format_time(next_us);
}

std::string schedule_text(const json& schedule) {
  std::string out;
  for (const char* member :
       {"name", "cron", "timezone", "misfire", "grace_s", "if_running", "owner", "promotion"})
    out += fmt::format("{:<11} {}\n", member, text_of(schedule, member));
  out += fmt::format("{:<11} {}\n", "next", next_text(schedule));
  for (const json& fire : member_of(schedule, "fires"))
    out += fmt::format("  {}  {:<8} {} {}\n", format_time(base::integer_at(fire, "fire_us")),
                       text_of(fire, "outcome"), text_of(fire, "why"), text_of(fire, "promotion"));
  return out;
}

int print_schedule(const ConnectionArgs& connection, const schema::Result<std::string>& answer) {
  const auto schedule = parse_answer(answer);
  if (!schedule) return report(schedule.error());
  if (connection.json)
    print_line(*answer);
  else
    print(schedule_text(*schedule));
  return kExitOk;
}

}  // namespace

int schedule_set(const ConnectionArgs& connection, const ScheduleArgs& args, bool replace) {
  const auto text = read_file(args.request_file);
  if (!text) return report(text.error());
  auto request = schema::parse_json(*text, {}, args.request_file);
  if (!request) return report(request.error());
  const json body{{"name", args.name},       {"cron", args.cron},       {"timezone", args.zone},
                  {"misfire", args.misfire}, {"grace_s", args.grace_s}, {"if_running", args.if_running},
                  {"promotion", *request}};
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  if (!replace)
    return print_schedule(connection, client->post("/v1/schedules", body.dump(), fresh_idempotency_key()));
  const auto seen = parse_answer(client->get(path_of(args.name)));
  if (!seen) return report(seen.error());
  return print_schedule(connection, client->change("PUT", path_of(args.name),
                                                   base::integer_at(*seen, "revision"), body.dump()));
}

int schedule_list(const ConnectionArgs& connection) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->get("/v1/schedules?limit=500");
  const auto page = parse_answer(answer);
  if (!page) return report(page.error());
  if (connection.json) {
    print_line(*answer);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const json& item : member_of(*page, "items"))
    rows.push_back({text_of(item, "name"), text_of(item, "model"), text_of(item, "cron"),
                    text_of(item, "timezone"), next_text(item), text_of(item, "owner")});
  print(rows.empty() ? "There are no schedules yet.\n"
                     : format_table({"name", "model", "cron", "timezone", "next (UTC)", "owner"}, rows));
  return kExitOk;
}

int schedule_show(const ConnectionArgs& connection, const std::string& name) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  return print_schedule(connection, client->get(path_of(name)));
}

int schedule_act(const ConnectionArgs& connection, const std::string& name, const std::string& action) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto seen = parse_answer(client->get(path_of(name)));
  if (!seen) return report(seen.error());
  const auto revision = base::integer_at(*seen, "revision");
  if (action != "delete")
    return print_schedule(connection, client->change("POST", path_of(name) + "/" + action, revision));
  const auto done = client->change("DELETE", path_of(name), revision);
  if (!done) return report(done.error());
  print_line(connection.json ? json{{"deleted", name}}.dump() : fmt::format("schedule {} is deleted", name));
  return kExitOk;
}

int schedule_next(const ConnectionArgs& connection, const std::string& name, std::uint64_t count) {
  auto client = Client::open(connection);
  if (!client) return report(client.error());
  const auto answer = client->get(fmt::format("{}/next?count={}", path_of(name), count));
  const auto times = parse_answer(answer);
  if (!times) return report(times.error());
  if (connection.json) {
    print_line(*answer);
    return kExitOk;
  }
  for (const json& item : member_of(*times, "items"))
    print_line(fmt::format("{} UTC  {}", format_time(base::integer_at(item, "fire_us")), text_of(item, "local")));
  return kExitOk;
}

}  // namespace driftgate::cli
