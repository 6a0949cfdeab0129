#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/json_members.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/output.hpp"
#include "daemon/cli/setup/dev/dev_run.hpp"
#include "daemon/cli/setup/setup_commands.hpp"
#include "daemon/cli/setup/working_folder.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using schema::ErrorCode;
using schema::fail;
using schema::Result;

Result<fs::path> working_folder(const std::string& name) {
  std::error_code error;
  const fs::path folder = fs::canonical(name, error);
  if (!error && fs::is_regular_file(folder / kSettingsName, error)) return folder;
  return fail(ErrorCode::not_found,
              fmt::format("{} has no {}: make a working folder with 'driftgate init {}'", name, kSettingsName,
                          shell_word(name)));
}

/// What a detached run tells the command that began it, once: that it runs, or why not.
void tell(base::UniqueFd& to, const json& news) {
  if (!to) return;
  [[maybe_unused]] const bool written =
      base::write_all(to.get(), news.dump(-1, ' ', false, json::error_handler_t::replace));
  to.reset();
}

/// In a session of its own, with what it prints in logs/dev.log.
Result<void> run_detached(const fs::path& folder, const Deployment& deployment, base::UniqueFd& told) {
  const fs::path log = folder / "logs" / "dev.log";
  if (::mkdir(log.parent_path().c_str(), 0700) != 0 && errno != EEXIST)
    return base::file_failure("make", log.parent_path());
  const base::UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const base::UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!out || !nothing) return base::file_failure("write", log);
  ::setsid();
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(out.get(), STDOUT_FILENO);
  ::dup2(out.get(), STDERR_FILENO);
  return run_folder(folder, deployment, [&told](const std::string& text) { tell(told, {{"ready", text}}); });
}

/// Forks a run of the folder and returns once it is ready, with its text.
Result<std::string> detach(const fs::path& folder, const Deployment& deployment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return base::file_failure("start", "driftgate dev");
  base::UniqueFd heard(ends[0]), told(ends[1]);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return base::file_failure("start", "driftgate dev");
  if (pid == 0) {
    heard.reset();
    const auto ended = run_detached(folder, deployment, told);
    if (!ended) {
      tell(told, {{"error", ended.error().message}, {"code", static_cast<int>(ended.error().code)}});
      report(ended.error());
    }
    std::fflush(nullptr);
    ::_exit(ended ? kExitOk : kExitError);
  }
  told.reset();
  const auto text = TRY(base::read_all(heard.get(), "what driftgate dev says", 1 << 20));
  const auto news = json::parse(text, nullptr, false);
  if (news.is_object() && news.contains("ready"))
    return base::text_at(news, "ready");  // its lines stay lines
  if (news.is_object() && news.contains("error"))
    return fail(static_cast<ErrorCode>(news.value("code", static_cast<int>(ErrorCode::internal))),
                base::text_at(news, "error"));
  return fail(ErrorCode::internal, fmt::format("driftgate dev ended at its start; see {}",
                                               (folder / "logs" / "dev.log").string()));
}

Result<void> dev(const DevArgs& args, const ReadDeployment& read) {
  const fs::path folder = TRY(working_folder(args.folder));
  const auto deployment = TRY(read((folder / kSettingsName).string(), ""));
  const std::string name = shell_word(args.folder);
  if (args.stop) {
    const bool ran = TRY(stop_folder(folder, deployment));
    print_line(ran ? fmt::format("{} is stopped", folder.string())
                   : fmt::format("nothing runs in {}", folder.string()));
    return {};
  }
  if (args.detach) {
    const auto text = TRY(detach(folder, deployment));
    print(text);
    print_line(fmt::format("Ends with: driftgate dev {} --stop", name));
    return {};
  }
  TRY(run_folder(folder, deployment, [](const std::string& text) {
    print(text);
    print_line(
        "Ctrl-C ends everything: the daemon, the router once users' requests are answered, the engines.");
  }));
  print_line("stopped");
  return {};
}

}  // namespace

int dev_command(const DevArgs& args, const ReadDeployment& read) {
  const auto done = dev(args, read);
  return done ? kExitOk : report_offline(done.error());
}

}  // namespace driftgate::cli
