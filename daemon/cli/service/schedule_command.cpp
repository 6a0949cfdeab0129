#include "daemon/cli/service/schedule_command.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/cli/time_text.hpp"
#include "daemon/net/url.hpp"
#include "schema/json.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

/// The largest integer that JSON keeps exactly.
constexpr std::int64_t kMostSeconds = (std::int64_t{1} << 53) - 1;

/// "report" is a word of the API where it is written as it is, and may be the name of an old schedule.
std::string path_of(const std::string& name) {
  if (name == "report") return "/v1/schedules/%72eport";
  return "/v1/schedules/" + net::percent_encode(name);
}

std::string next_text(const json& schedule) {
  if (is_true(schedule, "paused")) return "paused";
  const auto next_us = base::integer_at(schedule, "next_us");
  return next_us == 0 ? "never" : format_time(next_us);
}

std::string duration_words(std::int64_t ms) {
  const auto seconds = ms / 1'000;
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7'200) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h {} min", seconds / 3'600, seconds % 3'600 / 60);
}

/// "succeeded, live", "running in canary"
std::string standing_words(const json& standing) {
  const auto state = text_of(standing, "state"), stage = text_of(standing, "stage");
  if (base::integer_at(standing, "ended_us") != 0)
    return fmt::format("{}, {}", state, text_of(standing, "traffic"));
  return stage.empty() ? state : fmt::format("{} in {}", state, stage);
}

/// What came of a fire time, with the whole reason.
std::string fire_text(const json& fire) {
  const auto why = text_of(fire, "why"), reason = text_of(fire, "reason");
  const auto promotion = text_of(fire, "promotion");
  std::string out = fmt::format("  {}  {:<8} {}", format_time(base::integer_at(fire, "fire_us")),
                                text_of(fire, "outcome"), promotion.empty() ? why : promotion);
  if (const auto missed = base::integer_at(fire, "missed"); missed > 0)
    out += fmt::format(", {} missed before it", missed);
  if (!reason.empty()) out += ": " + reason;
  if (!promotion.empty() && !why.empty()) out += " " + why;
  const json standing = member_of(fire, "standing");
  if (!standing.is_object()) return out + "\n";
  const auto ended_us = base::integer_at(standing, "ended_us");
  out += fmt::format(", {}", standing_words(standing));
  if (ended_us != 0) out += fmt::format(" at {}", format_time(ended_us));
  return fmt::format("{}\n    {}\n", out, text_of(standing, "why"));
}

std::string schedule_text(const json& schedule) {
  std::string out;
  for (const char* member :
       {"name", "cron", "timezone", "misfire", "grace_s", "if_running", "owner", "promotion"})
    out += fmt::format("{:<11} {}\n", member, text_of(schedule, member));
  out += fmt::format("{:<11} {}\n", "next", next_text(schedule));
  for (const json& fire : member_of(schedule, "fires")) out += fire_text(fire);
  return out;
}

std::vector<std::string> report_row(const json& item) {
  const json standing = member_of(item, "standing");
  std::string who;
  for (const json& need : member_of(item, "needs"))
    who += fmt::format("{}{}: {}", who.empty() ? "" : " ", text_of(need, "scope"), text_of(need, "text"));
  const auto reason = text_of(item, "reason");
  const auto ended = standing.is_object() ? standing_words(standing) : std::string();
  const auto took = base::member(item, "duration_ms") == nullptr
                        ? std::string()
                        : duration_words(base::integer_at(item, "duration_ms"));
  auto why = text_of(item, "why") + (reason.empty() ? "" : ": " + reason);
  if (standing.is_object()) why = text_of(standing, "why");
  return {format_time(base::integer_at(item, "fire_us")),
          text_of(item, "schedule"),
          text_of(item, "model"),
          text_of(item, "outcome"),
          text_of(item, "promotion"),
          ended,
          took,
          why,
          who};
}

std::string counts_words(const json& counts) {
  std::string out;
  if (!counts.is_object()) return out;
  for (const auto& [name, count] : counts.items())
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", plain_text(count), name);
  return out;
}

std::string report_text(const json& report) {
  const json totals = member_of(report, "totals");
  const auto count = [&](const char* name) { return base::integer_at(totals, name); };
  const auto of = [](const std::string& words) { return words.empty() ? "" : " (" + words + ")"; };
  auto out = fmt::format("{} to {}: {} fire times, {} fired{}, {} skipped{}",
                         format_time(base::integer_at(report, "since_us")),
                         format_time(base::integer_at(report, "until_us")), count("times"), count("fired"),
                         of(counts_words(member_of(totals, "promotions"))), count("skipped"),
                         of(counts_words(member_of(totals, "skipped_by"))));
  if (count("pending") > 0) out += fmt::format(", {} being decided", count("pending"));
  if (count("unrecorded") > 0) out += fmt::format(", {} NOT RECORDED", count("unrecorded"));
  out += fmt::format("; {} need people\n", count("need_people"));
  return out + items_table(report,
                           {"fire time (UTC)", "schedule", "model", "outcome", "promotion", "ended", "took",
                            "why", "who must act"},
                           report_row, "No schedule had a fire time.");
}

std::vector<std::string> schedule_row(const json& schedule) {
  return {text_of(schedule, "name"),     text_of(schedule, "model"), text_of(schedule, "cron"),
          text_of(schedule, "timezone"), next_text(schedule),        text_of(schedule, "owner")};
}

/// Puts what was given into the members of a schedule.
schema::Result<void> put_given(const ScheduleArgs& args, json& body) {
  const std::pair<const char*, const std::optional<std::string>*> texts[] = {
      {"cron", &args.cron},
      {"timezone", &args.zone},
      {"misfire", &args.misfire},
      {"if_running", &args.if_running}};
  for (const auto& [member, value] : texts)
    if (*value) body[member] = **value;
  if (args.grace_s) body["grace_s"] = *args.grace_s;
  if (!args.request_file) return {};
  const auto text = TRY(read_file(*args.request_file));
  body["promotion"] = TRY(schema::parse_json(text, {}, *args.request_file));
  return {};
}

/// The schedule as it is, and its revision, which a change of it must name.
schema::Result<json> read_schedule(Client& client, const std::string& name) {
  return parse_answer(client.get(path_of(name)));
}

/// The answer to a change, with a warning for each reason why its request would not be accepted now.
schema::Result<int> print_set(const ConnectionArgs& connection, const schema::Result<std::string>& answer) {
  const auto code = TRY(print_answer(connection, answer, schedule_text));
  const auto schedule = TRY(parse_answer(answer));
  for (const json& warning : member_of(schedule, "warnings"))
    fmt::print(stderr, "driftgate: warning: {}\n", plain_text(warning));
  return code;
}

}  // namespace

void add_schedule_options(CLI::App& sub, ScheduleArgs& into, bool replace) {
  const auto unless = [&](const char* otherwise) { return replace ? "as it is" : otherwise; };
  sub.add_option("--cron", into.cron, "minute hour day-of-month month day-of-week")->required(!replace);
  sub.add_option("--request", into.request_file, "The promotion request, a JSON file")->required(!replace);
  sub.add_option("--timezone", into.zone, fmt::format("IANA name ({})", unless("UTC")));
  sub.add_option(
         "--misfire", into.misfire,
         fmt::format("What to do about a fire time that was missed while the daemon did not run: skip or "
                     "run_once ({})",
                     unless("skip")))
      ->check(CLI::IsMember({"skip", "run_once"}));
  sub.add_option("--grace", into.grace_s,
                 fmt::format("Seconds that run_once may be late ({})", unless("3600")))
      ->check(CLI::Range(std::int64_t{0}, kMostSeconds));
  sub.add_option("--if-running", into.if_running,
                 fmt::format("What to do while a promotion of the model is in progress: skip or queue ({})",
                             unless("skip")))
      ->check(CLI::IsMember({"skip", "queue"}));
}

void add_report_options(CLI::App& sub, ScheduleArgs& into) {
  sub.add_option("--since", into.since,
                 "From this time on: 2026-01-31 or 2026-01-31T12:00:05, UTC (24 hours before)");
  sub.add_option("--until", into.until, "Up to this time (now)");
  sub.add_option("--model", into.model, "Of this model only");
}

int schedule_set(const ConnectionArgs& connection, const ScheduleArgs& args, bool replace) {
  json body = json::object();
  const auto given = put_given(args, body);
  if (!given) return report(given.error());
  return with_daemon(connection, [&](Client& client) -> schema::Result<int> {
    if (!replace) {
      body["name"] = args.name;
      return print_set(connection, client.post("/v1/schedules", body.dump(), fresh_idempotency_key()));
    }
    const auto schedule = TRY(read_schedule(client, args.name));
    for (const char* member : {"cron", "timezone", "misfire", "grace_s", "if_running", "promotion"})
      if (!body.contains(member)) body[member] = member_of(schedule, member);
    const auto revision = base::integer_at(schedule, "revision");
    return print_set(connection, client.change("PUT", path_of(args.name), revision, body.dump()));
  });
}

int schedule_report(const ConnectionArgs& connection, const ScheduleArgs& args) {
  std::string query;
  for (const auto& [name, text] : {std::pair{"since_us", &args.since}, std::pair{"until_us", &args.until}}) {
    if (text->empty()) continue;
    const auto time_us = parse_time(*text);
    if (!time_us) return report(time_us.error());
    query += fmt::format("{}{}={}", query.empty() ? "?" : "&", name, *time_us);
  }
  if (!args.model.empty())
    query += fmt::format("{}model={}", query.empty() ? "?" : "&", net::percent_encode(args.model));
  return ask(
      connection, [&](Client& client) { return client.get("/v1/schedules/report" + query); }, report_text);
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
    const auto schedule = TRY(read_schedule(client, name));
    const auto revision = base::integer_at(schedule, "revision");
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
