#include "daemon/jobs/slurm/slurm_commands.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "daemon/jobs/slurm/command.hpp"
#include "schema/utf8.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr char kSeparator = '\x1f';  ///< between fields: no file name or comment of ours has it
constexpr std::size_t kMaxIdDigits = 18;
constexpr std::size_t kMaxWords = 600;  ///< of a program's error output that are quoted

/// What Slurm's programs say when the controller, or munge's daemon, cannot be reached.
constexpr std::array<std::string_view, 13> kAway{"Unable to contact slurm controller",
                                                 "Connection refused",
                                                 "Connection timed out",
                                                 "Socket timed out",
                                                 "Zero Bytes were transmitted or received",
                                                 "Communication connection failure",
                                                 "Communication shutdown failure",
                                                 "Protocol authentication error",
                                                 "Munge encode failed",
                                                 "Could not establish a configuration source",
                                                 "backup controller in standby",
                                                 "Slurm backup controller",
                                                 "controller is not responding"};
/// What sbatch says when it can never take the job as it is.
constexpr std::array<std::string_view, 24> kNever{"Invalid partition",
                                                  "Invalid account",
                                                  "Invalid qos",
                                                  "Invalid wckey",
                                                  "Invalid license",
                                                  "Invalid feature",
                                                  "Invalid generic resource",
                                                  "Invalid Trackable RESource",
                                                  "Invalid user id",
                                                  "Invalid job name",
                                                  "Invalid --",
                                                  "invalid option",
                                                  "unrecognized option",
                                                  "invalid number",
                                                  "Unable to open file",
                                                  "no valid interpreter",
                                                  "Requested node configuration is not available",
                                                  "Requested time limit is invalid",
                                                  "Requested GRES option unsupported",
                                                  "Requested reservation is invalid",
                                                  "Memory specification can not be satisfied",
                                                  "More processors requested than permitted",
                                                  "ccess/permission denied",
                                                  "User's group not permitted"};
/// What sbatch says when it is only too early.
constexpr std::array<std::string_view, 5> kLater{
    "MaxSubmit", "MaxJobCount", "temporarily unable to accept job", "Resource temporarily unavailable",
    "Transaction or DB operation"};

template <typename Texts>
bool says_any(std::string_view text, const Texts& texts) {
  return std::ranges::any_of(
      texts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

std::string_view without_space(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <typename Number>
Number number_from(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : Number{};
}

std::string told(std::string_view text) {
  auto words = schema::utf8_text(std::string(without_space(text)), kMaxWords);
  std::ranges::replace(words, '\n', ' ');
  return words.empty() ? "it gave no reason" : words;
}

}  // namespace

bool is_slurm_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdDigits &&
         std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
}

std::int64_t duration_from_text(std::string_view text) {
  constexpr std::size_t kMaxDigits = 20;  // of all parts: no sum of them can overflow
  if (text.size() > kMaxDigits) return 0;
  std::int64_t days = 0;
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    if (dash > 9) return 0;
    days = number_from<std::int64_t>(text.substr(0, dash));
    text.remove_prefix(dash + 1);
  }
  std::int64_t seconds = 0;
  for (const auto part : split(text, ':')) {
    const bool digits = !part.empty() && part.size() <= 9 &&
                        std::ranges::all_of(part, [](char c) { return '0' <= c && c <= '9'; });
    if (!digits) return 0;
    seconds = seconds * 60 + number_from<std::int64_t>(part);
  }
  return days * 86'400 + seconds;
}

std::vector<QueuedJob> queue_from_text(std::string_view text) {
  constexpr std::size_t kFields = 10;
  std::vector<QueuedJob> jobs;
  for (const auto line : split(text, '\n')) {
    auto fields = split(line, kSeparator);
    if (fields.size() != kFields + 1 || !is_slurm_id(without_space(fields[0]))) continue;
    for (auto& field : fields) field = without_space(field);
    QueuedJob job;
    job.id = fields[0];
    job.state = fields[1];
    job.reason = fields[2] == "None" ? "" : schema::utf8_text(std::string(fields[2]), kMaxWords);
    job.nodes = schema::utf8_text(std::string(fields[3]), kMaxWords);
    job.restarts = number_from<std::uint32_t>(fields[4]);
    const int status = number_from<int>(fields[5]);
    job.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    job.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    job.used_s = duration_from_text(fields[6]);
    job.limit_s = duration_from_text(fields[7]);
    job.comment = fields[8];
    job.folder = fields[9];
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::optional<QueuedJob> accounted_from_text(std::string_view text) {
  const auto fields = split(without_space(text.substr(0, text.find('\n'))), '|');
  if (fields.size() < 4 || !is_slurm_id(fields[0])) return std::nullopt;
  QueuedJob job;
  job.id = fields[0];
  job.state = schema::utf8_text(std::string(fields[1]), kMaxWords);
  const auto code = split(fields[2], ':');
  job.exit_code = number_from<int>(code.front());
  job.signal = code.size() > 1 ? number_from<int>(code[1]) : 0;
  job.nodes = schema::utf8_text(std::string(fields[3]), kMaxWords);
  if (fields.size() < 7) return job;
  job.used_s = number_from<std::uint32_t>(fields[4]);
  job.limit_s = std::int64_t{60} * number_from<std::uint32_t>(fields[5]);
  const auto folder_at = fields[6].data() - text.data();  // which may hold separators itself
  job.folder = without_space(text.substr(static_cast<std::size_t>(folder_at)));
  job.folder.resize(std::min(job.folder.size(), job.folder.find('\n')));
  return job;
}

SlurmCommands::SlurmCommands(SlurmAccess access, int stop_fd)
    : access_(std::move(access)), stop_fd_(stop_fd) {}

schema::Result<std::string> SlurmCommands::find(std::string_view program) const {
  std::vector<std::filesystem::path> folders{access_.bin_dir};
  if (access_.bin_dir.empty()) folders = {"/usr/local/bin", "/usr/bin", "/bin", "/opt/slurm/bin"};
  for (const auto& folder : folders) {
    auto path = (folder / program).string();
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  std::vector<std::string> names;
  for (const auto& folder : folders) names.push_back(folder.string());
  return schema::fail(ErrorCode::not_found,
                      fmt::format("Slurm's program {} is not in {}; install Slurm's client programs, or name "
                                  "their folder in slurm.bin_dir",
                                  program, fmt::join(names, ", ")));
}

schema::Result<CommandEnd> SlurmCommands::run(std::string_view program,
                                              const std::vector<std::string>& words) const {
  auto path = TRY(find(program));
  Command command;
  command.argv.push_back(std::move(path));
  command.argv.insert(command.argv.end(), words.begin(), words.end());
  command.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"};
  if (!access_.conf_file.empty()) command.environment.push_back("SLURM_CONF=" + access_.conf_file.string());
  command.limit = access_.command_limit;
  command.stop_fd = stop_fd_;
  auto ended = run_command(command);
  if (!ended && ended.error().code == ErrorCode::deadline_exceeded)
    return schema::fail(ErrorCode::unavailable, ended.error().message);
  return ended;
}

schema::Result<std::string> SlurmCommands::submit(const std::vector<std::string>& words) const {
  const auto ended = TRY(run("sbatch", words));
  const auto id = without_space(std::string_view(ended.out).substr(0, ended.out.find(';')));
  if (ended.exit_code == 0 && is_slurm_id(id)) return std::string(id);
  const auto why = told(ended.err);
  if (says_any(ended.err, kAway)) return schema::fail(ErrorCode::unavailable, why);
  if (says_any(ended.err, kLater)) return schema::fail(ErrorCode::limit_exceeded, why);
  if (!says_any(ended.err, kNever))
    return schema::fail(ErrorCode::conflict, fmt::format("Slurm does not take the job: {}", why));
  return schema::fail(ErrorCode::invalid_argument,
                      fmt::format("Slurm refuses the job: {}; look at the settings of slurm", why));
}

schema::Result<std::vector<QueuedJob>> SlurmCommands::queue() const {
  std::string format;
  for (const auto* field : {"JobID", "State", "Reason", "NodeList", "RestartCnt", "exit_code", "TimeUsed",
                            "TimeLimit", "Comment", "WorkDir"})
    format += fmt::format("{}{}:{}", format.empty() ? "" : ",", field, kSeparator);
  const auto ended = TRY(run("squeue", {"--noheader", "--states=all", "--array-unique",
                                        fmt::format("--user={}", ::getuid()), "--Format=" + format}));
  if (ended.exit_code != 0)
    return schema::fail(ErrorCode::unavailable, fmt::format("squeue failed: {}", told(ended.err)));
  return queue_from_text(ended.out);
}

std::optional<QueuedJob> SlurmCommands::accounted(const std::string& id) {
  if (!has_accounting_ || !is_slurm_id(id) || std::chrono::steady_clock::now() < ask_again_)
    return std::nullopt;
  const auto ended = run("sacct", {"--noheader", "--parsable2", "--allocations", "--jobs=" + id,
                                   "--format=JobID,State,ExitCode,NodeList,ElapsedRaw,TimelimitRaw,WorkDir"});
  if (ended && ended->err.find("accounting storage is disabled") != std::string::npos)
    has_accounting_ = false;
  if (!ended || ended->exit_code != 0) {
    ask_again_ = std::chrono::steady_clock::now() + access_.accounting_pause;
    return std::nullopt;
  }
  return accounted_from_text(ended->out);
}

schema::Result<void> SlurmCommands::cancel(const std::vector<std::string>& ids) const {
  if (ids.empty()) return {};
  const auto ended = TRY(run("scancel", ids));
  // A job that has ended already is no failure.
  if (ended.exit_code != 0 && says_any(ended.err, kAway))
    return schema::fail(ErrorCode::unavailable, told(ended.err));
  return {};
}

schema::Result<void> SlurmCommands::ping() const {
  const auto ended = TRY(run("scontrol", {"ping"}));
  if (ended.exit_code == 0 && ended.out.find(" UP") != std::string::npos) return {};
  const auto& said = ended.err.empty() ? ended.out : ended.err;
  return schema::fail(ErrorCode::unavailable, fmt::format("Slurm's controller does not answer: {}",
                                                          told(said.substr(0, said.find('\n')))));
}

}  // namespace driftgate::jobs
