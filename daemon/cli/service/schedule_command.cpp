#include "daemon/cli/service/schedule_command.hpp"

#include <fmt/core.h>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
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

std::vector<std::string> schedule_row(const json& schedule) {
  return {text_of(schedule, "name"),     text_of(schedule, "model"), text_of(schedule, "cron"),
          text_of(schedule, "timezone"), next_text(schedule),        text_of(schedule, "owner")};
}

schema::Result<std::string> request_body(const ScheduleArgs& args) {
  const auto text = TRY(read_file(args.request_file));
  const auto request = TRY(schema::parse_json(text, {}, args.request_file));
  return json{{"name", args.name},       {"cron", args.cron},       {"timezone", args.zone},
              {"misfire", args.misfire}, {"grace_s", args.grace_s}, {"if_running", args.if_running},
              {"promotion", request}}
      .dump();
}

/// The revision that a change of the schedule must name.
schema::Result<std::int64_t> revision_of(Client& client, const std::string& name) {
  const auto schedule = TRY(parse_answer(client.get(path_of(name))));
  return base::integer_at(schedule, "revision");
}

}  // namespace

int schedule_set(const ConnectionArgs& connection, const ScheduleArgs& args, bool replace) {
  const auto body = request_body(args);
  if (!body) return report(body.error());
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    if (!replace) {
      return print_answer(connection, client.post("/v1/schedules", *body, fresh_idempotency_key()),
                          schedule_text);
    }
    const auto revision = TRY(revision_of(client, args.name));
    return print_answer(connection, client.change("PUT", path_of(args.name), revision, *body), schedule_text);
  });
}

int schedule_list(const ConnectionArgs& connection) {
  return ask(
      connection, [](Client& client) { return client.get("/v1/schedules?limit=500"); },
      [](const json& page) {
        return items_table(page, {"name", "model", "cron", "timezone", "next (UTC)", "owner"}, schedule_row,
                           "There are no schedules yet.");
      });
}

int schedule_show(const ConnectionArgs& connection, const std::string& name) {
  return ask(
      connection, [&](Client& client) { return client.get(path_of(name)); }, schedule_text);
}

int schedule_act(const ConnectionArgs& connection, const std::string& name, const std::string& action) {
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    const auto revision = TRY(revision_of(client, name));
    if (action != "delete") {
      return print_answer(connection, client.change("POST", path_of(name) + "/" + action, revision),
                          schedule_text);
    }
    TRY(client.change("DELETE", path_of(name), revision));
    print_line(connection.json ? json{{"deleted", name}}.dump()
                               : fmt::format("schedule {} is deleted", name));
    return kExitOk;
  });
}

int schedule_next(const ConnectionArgs& connection, const std::string& name, std::uint64_t count) {
  return ask(
      connection,
      [&](Client& client) { return client.get(fmt::format("{}/next?count={}", path_of(name), count)); },
      [](const json& times) {
        std::string out;
        for (const json& item : member_of(times, "items"))
          out += fmt::format("{} UTC  {}\n", format_time(base::integer_at(item, "fire_us")),
                             text_of(item, "local"));
        return out;
      });
}

}  // namespace driftgate::cli
