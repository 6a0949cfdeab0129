#include "daemon/cli/jobs/jobs_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <optional>
#include <thread>

#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/json_text.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/service/command.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::cli {
namespace {

using nlohmann::json;

std::string path_of(const std::string& id) {
  return "/v1/jobs/" + net::percent_encode(id);
}

std::string line(std::string_view label, const std::string& text) {
  return text.empty() ? "" : fmt::format("{:<10} {}\n", label, text);
}

/// "slurm 1234 on n1: Priority", "local 4711"; "-" where nobody knows it.
std::string where_text(const json& job) {
  const json place = member_of(job, "place");
  if (!place.is_object()) return "-";
  std::string out = text_of(place, "runner");
  if (const auto remote = text_of(place, "remote"); !remote.empty()) out += " " + remote;
  if (const auto nodes = text_of(place, "nodes"); !nodes.empty()) out += " on " + nodes;
  if (const auto reason = text_of(place, "reason"); !reason.empty()) out += ": " + reason;
  return out;
}

/// The state, and of a job that has not ended where it stands: "queued", "running, being cancelled".
std::string state_text(const json& job) {
  std::string state = text_of(job, "state");
  if (text_of(job, "ended_us").empty()) {
    const auto stands = text_of(member_of(job, "place"), "state");
    if (stands == "waiting" || stands == "queued") state = stands;
    if (member_of(job, "cancel").is_object()) state += ", being cancelled";
  }
  return state;
}

std::string progress_text(const json& job) {
  const json progress = member_of(job, "progress");
  const auto done = base::integer_at(progress, "done"), total = base::integer_at(progress, "total");
  std::string out;
  if (total > 0)
    out = fmt::format("{}% ({} of {} {})", 100 * done / total, done, total, text_of(progress, "unit"));
  else if (done > 0)
    out = fmt::format("{} {}", done, text_of(progress, "unit"));
  const auto text = text_of(progress, "text");
  return text.empty() ? out : out + (out.empty() ? "" : ", ") + text;
}

std::string time_at(const json& object, std::string_view member) {
  const auto time_us = base::integer_at(object, member);
  return time_us == 0 ? "" : format_time(time_us) + " UTC";
}

std::vector<std::string> logs_of(const json& job) {
  std::vector<std::string> names;
  const json logs = member_of(job, "logs");
  if (logs.is_array())
    for (const json& name : logs) names.push_back(plain_text(name));
  return names;
}

std::string job_text(const json& job) {
  std::string out = line("job", text_of(job, "id"));
  out += line("promotion", fmt::format("{} of model {}", text_of(job, "promotion"), text_of(job, "model")));
  out += line("stage", fmt::format("{}, attempt {}", text_of(job, "stage"), text_of(job, "attempt")));
  out += line("name", fmt::format("{} ({})", text_of(job, "name"), text_of(job, "kind")));
  out +=
      line("state", state_text(job)) + line("where", where_text(job)) + line("progress", progress_text(job));
  out += line("created", time_at(job, "created_us")) + line("ended", time_at(job, "ended_us"));
  if (const json cancel = member_of(job, "cancel"); cancel.is_object())
    out += line("cancelled", fmt::format("by {} at {}: {}", text_of(cancel, "by"),
                                         time_at(cancel, "since_us"), text_of(cancel, "reason")));
  if (const json error = member_of(job, "error"); error.is_object())
    out += line("error", fmt::format("{}: {}", text_of(error, "code"), text_of(error, "message")));
  if (const json digests = member_of(job, "digests"); digests.is_object())
    for (const auto& [name, digest] : digests.items())
      out += line("digest", fmt::format("{} {}", plain_text(name), plain_text(digest)));
  return out + line("logs", fmt::format("{}", fmt::join(logs_of(job), ", "))) +
         line("folder", text_of(job, "folder"));
}

std::vector<std::string> job_row(const json& job) {
  return {text_of(job, "id"),    text_of(job, "promotion"),
          text_of(job, "stage"), text_of(job, "name"),
          state_text(job),       where_text(job),
          progress_text(job),    format_time(base::integer_at(job, "created_us"))};
}

/// What other programs have printed, without what would steer a terminal.
std::string safe_lines(const std::string& text) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', from)) {
    out += printable(std::string_view(text).substr(from, at - from)) + "\n";
    from = at + 1;
  }
  return out + printable(std::string_view(text).substr(from));
}

/// Prints the outputs of a job one after another.
class LogReader {
 public:
  LogReader(Client& client, const ConnectionArgs& connection, const JobsArgs& args)
      : client_(client), as_json_(connection.json), args_(args) {}

  schema::Result<int> run() {
    const json job = TRY(parse_answer(client_.get(path_of(args_.id))));
    std::vector<std::string> files;
    for (const std::string& file : logs_of(job))
      if (args_.file.empty() || file == args_.file) files.push_back(file);
    // A file that is not there yet, or never will be: the daemon says which.
    if (files.empty() && !args_.file.empty()) files.push_back(args_.file);
    if (files.empty() && !args_.follow)
      fmt::print(stderr, "driftgate: nothing was printed, or nothing is left of it\n");
    for (const std::string& file : files) TRY(print_file(file, files.size() > 1));
    if (args_.follow) TRY(follow(files.empty() ? std::string() : files.back()));
    return kExitOk;
  }

 private:
  /// The part from the byte where the one before ended; the end of the file at first, or with --all its
  /// start.
  schema::Result<json> part(const std::string& file) {
    std::string target = path_of(args_.id) + "/log?";
    if (!file.empty()) target += "file=" + net::percent_encode(file) + "&";
    if (next_) target += fmt::format("offset={}&", *next_);
    auto answer = TRY(parse_answer(client_.get(target + "limit=262144")));
    // Once the stage has ended nothing is left, which must not be read again from its start.
    if (member_of(answer, "files").empty()) return answer;
    next_ = base::integer_at(answer, "next");
    return answer;
  }

  void show(const json& part) {
    const std::string text = base::text_at(part, "text");
    if (text.empty()) return;
    if (as_json_)
      print_line(part.dump());
    else
      print(safe_lines(text));
  }

  schema::Result<void> print_file(const std::string& file, bool with_heading) {
    if (with_heading && !as_json_) print_line(fmt::format("==> {} <==", printable(file)));
    next_ = args_.all ? std::optional<std::int64_t>(0) : std::nullopt;
    for (bool more = true; more;) {
      const json shown = TRY(part(file));
      show(shown);
      more = !base::text_at(shown, "text").empty() && next_ && *next_ < base::integer_at(shown, "size");
    }
    return {};
  }

  schema::Result<void> follow(const std::string& file) {
    for (;;) {
      const json shown = TRY(part(file));
      show(shown);
      const bool empty = base::text_at(shown, "text").empty();
      if (is_true(shown, "ended") && empty) return {};
      if (empty) std::this_thread::sleep_for(kPollInterval);
    }
  }

  static constexpr std::chrono::milliseconds kPollInterval{500};
  Client& client_;
  const bool as_json_;
  const JobsArgs& args_;
  std::optional<std::int64_t> next_;
};

}  // namespace

int jobs_list(const ConnectionArgs& connection, const JobsArgs& args) {
  std::string target = fmt::format("/v1/jobs?limit={}", args.limit);
  for (const auto& [name, value] : {std::pair{"state", &args.state}, std::pair{"model", &args.model},
                                    std::pair{"promotion", &args.promotion}, std::pair{"kind", &args.kind}})
    if (!value->empty()) target += fmt::format("&{}={}", name, net::percent_encode(*value));
  return ask(
      connection, [&](Client& client) { return client.get(target); },
      [](const json& page) {
        return items_table(
            page, {"id", "promotion", "stage", "name", "state", "where", "progress", "created (UTC)"},
            job_row, "There are no such jobs.");
      });
}

int jobs_show(const ConnectionArgs& connection, const JobsArgs& args) {
  return ask(
      connection, [&](Client& client) { return client.get(path_of(args.id)); }, job_text);
}

int jobs_cancel(const ConnectionArgs& connection, const JobsArgs& args) {
  const auto post = [&](Client& client) {
    return client.post(path_of(args.id) + "/cancel", json{{"reason", args.reason}}.dump(),
                       fresh_idempotency_key());
  };
  return ask(connection, post, [&](const json& job) {
    const json cancel = member_of(job, "cancel");
    return fmt::format("job {} is cancelled by {}: {}", text_of(job, "id"), text_of(cancel, "by"),
                       text_of(cancel, "reason"));
  });
}

int jobs_logs(const ConnectionArgs& connection, const JobsArgs& args) {
  return with_daemon(connection, [&](Client& client) { return LogReader(client, connection, args).run(); });
}

void add_job_commands(CLI::App& jobs, JobsArgs& args, const ConnectionArgs& connection,
                      const MakeCommand& make) {
  CLI::App* list = make(jobs, "list", "List jobs, newest first", [&] { return jobs_list(connection, args); });
  list->add_option("--state", args.state, "pending, running, done, failed or cancelled")
      ->check(CLI::IsMember({"pending", "running", "done", "failed", "cancelled"}));
  list->add_option("--model", args.model, "Of promotions of this model");
  list->add_option("--promotion", args.promotion, "Of this promotion (pr-…)");
  list->add_option("--kind", args.kind, "drift, capture or rescore")
      ->check(CLI::IsMember({"drift", "capture", "rescore"}));
  list->add_option("--limit", args.limit, "At most this many")->check(CLI::Range(1, 500));
  const auto of_job = [&](CLI::App* sub) {
    sub->add_option("job", args.id, "Job (job-…)")->required();
    return sub;
  };
  of_job(make(jobs, "show", "Show where a job runs, how far it is, or how it ended",
              [&] { return jobs_show(connection, args); }));
  of_job(make(jobs, "cancel", "End a job; its promotion ends as errored and names you and the reason",
              [&] { return jobs_cancel(connection, args); }))
      ->add_option("--reason", args.reason, "Why; kept as evidence")
      ->required();
  CLI::App* logs = of_job(make(jobs, "logs", "Print the end of what a job's programs have printed",
                               [&] { return jobs_logs(connection, args); }));
  logs->add_option("--file", args.file, "Only this one of the files that `jobs show` lists");
  logs->add_flag("--all", args.all, "From the beginning");
  logs->add_flag("--follow", args.follow, "Go on until the job has ended");
}

}  // namespace driftgate::cli
