#include "daemon/jobs/slurm/batch_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr std::size_t kMaxTemplateBytes = 64 * 1024;
constexpr std::int64_t kSignalLead_s = 60;  ///< before the time limit, for the worker to stop in order
/// By which Slurm's limit comes after the job's own, which says more.
constexpr std::int64_t kAfterOwnLimit_s = 60;
constexpr std::uint64_t kMiB = 1u << 20;

constexpr std::string_view kShipped = R"(#!/bin/sh
# Runs one job of driftgate. Lines of your site go between here and the last one: modules to load, further
# #SBATCH lines, where MPI and NCCL find their network.
exec @command@
)";

constexpr std::array<std::string_view, 9> kNames{"command", "launch", "worker",        "job_dir", "ranks",
                                                 "key",     "kind",   "cpus_per_rank", "name"};

bool is_name_character(char c) {
  return ('a' <= c && c <= 'z') || c == '_';
}

/// Calls `text_part` for each stretch of text and `variable` for each @name@ in it.
template <typename Text, typename Variable>
void walk(std::string_view text, Text text_part, Variable variable) {
  while (!text.empty()) {
    const auto at = text.find('@');
    text_part(text.substr(0, at));
    if (at == std::string_view::npos) return;
    const auto rest = text.substr(at + 1);
    const auto end = std::ranges::find_if_not(rest, is_name_character);
    const auto length = static_cast<std::size_t>(end - rest.begin());
    if (length == 0 || end == rest.end() || *end != '@') {  // an address, "$@" …
      text_part("@");
      text = rest;
      continue;
    }
    variable(rest.substr(0, length));
    text = rest.substr(length + 1);
  }
}

bool is_plain(std::string_view text, std::string_view further) {
  return std::ranges::all_of(text, [&](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
           further.find(c) != std::string_view::npos;
  });
}

std::string name_of(std::string_view key) {
  return std::string(key.substr(key.rfind('/') + 1));  // npos + 1 is 0
}

/// "gpu:h100:2" as sbatch's --gpus-per-task has it: "h100:2".
std::string_view gpus_of(std::string_view gres) {
  constexpr std::string_view kPrefix = "gpu:";
  return gres.starts_with(kPrefix) ? gres.substr(kPrefix.size()) : std::string_view{};
}

bool has_gpus(const JobSpec& spec, const SlurmResources& resources) {
  return spec.kind != JobKind::rescore && !resources.gres.empty();
}

std::string launch_of(const JobSpec& spec, const SlurmResources& resources) {
  if (spec.ranks == 1) return {};
  // The batch script's environment is clean by --export=NONE; what a template adds is for the ranks.
  auto launch =
      fmt::format("srun --mpi=pmix --export=ALL --kill-on-bad-exit=1 --ntasks={} --cpus-per-task={}",
                  spec.ranks, resources.cpus_per_rank);
  if (has_gpus(spec, resources)) launch += fmt::format(" --gpus-per-task={}", gpus_of(resources.gres));
  return launch;
}

}  // namespace

schema::Result<void> check_resources(const SlurmResources& resources) {
  const std::pair<std::string_view, const std::string&> names[] = {{"slurm.partition", resources.partition},
                                                                   {"slurm.account", resources.account},
                                                                   {"slurm.qos", resources.qos}};
  for (const auto& [setting, value] : names) {
    if (value.size() > 256 || !is_plain(value, "._-,"))
      return schema::fail(
          ErrorCode::invalid_argument,
          fmt::format("setting '{}' is '{}': it may have letters, digits, '.', '_', '-' and ','", setting,
                      value));
  }
  if (resources.constraint.size() > 1'024 || !is_plain(resources.constraint, "._-,&|*()[]!:"))
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("setting 'slurm.constraint' is '{}', which no list of features is",
                                    resources.constraint));
  if (resources.gres.empty()) return {};
  const auto gpus = gpus_of(resources.gres);
  const auto colon = gpus.rfind(':');
  const auto count = colon == std::string_view::npos ? gpus : gpus.substr(colon + 1);
  const bool counts = !count.empty() && count.size() <= 3 && count != "0" &&
                      std::ranges::all_of(count, [](char c) { return '0' <= c && c <= '9'; });
  const bool typed = colon == std::string_view::npos || (colon > 0 && is_plain(gpus.substr(0, colon), "._-"));
  if (counts && typed) return {};
  return schema::fail(ErrorCode::invalid_argument,
                      fmt::format("setting 'slurm.gres' is '{}'; it must be gpu:COUNT or gpu:TYPE:COUNT, the "
                                  "GPUs of one rank",
                                  resources.gres));
}

std::string_view shipped_template() {
  return kShipped;
}

schema::Result<void> check_template(std::string_view text) {
  if (text.size() > kMaxTemplateBytes || text.find('\0') != std::string_view::npos)
    return schema::fail(ErrorCode::invalid_document,
                        fmt::format("it must be a text of at most {} bytes", kMaxTemplateBytes));
  if (!text.starts_with("#!"))
    return schema::fail(ErrorCode::invalid_document, "its first line must name its shell, such as #!/bin/sh");
  std::string unknown;
  bool runs = false;
  bool worker = false;
  bool folder = false;
  walk(
      text, [](std::string_view) {},
      [&](std::string_view name) {
        if (std::ranges::find(kNames, name) == kNames.end()) unknown = name;
        runs = runs || name == "command";
        worker = worker || name == "worker";
        folder = folder || name == "job_dir";
      });
  if (!unknown.empty())
    return schema::fail(ErrorCode::invalid_document, fmt::format("it has no variable @{}@; there are {}",
                                                                 unknown, fmt::join(kNames, ", ")));
  if (!runs && !(worker && folder))
    return schema::fail(ErrorCode::invalid_document,
                        "it never runs the job: it needs @command@, or @worker@ and @job_dir@");
  return {};
}

std::string batch_script(std::string_view text, const JobSpec& spec, const std::string& job_dir,
                         const std::string& worker, const SlurmResources& resources) {
  const auto launch = launch_of(spec, resources);
  const std::map<std::string_view, std::string> values{
      {"command", fmt::format("{}{}{} worker {}", launch, launch.empty() ? "" : " ", shell_word(worker),
                              shell_word(job_dir))},
      {"launch", launch},
      {"worker", shell_word(worker)},
      {"job_dir", shell_word(job_dir)},
      {"ranks", std::to_string(spec.ranks)},
      {"cpus_per_rank", std::to_string(resources.cpus_per_rank)},
      {"kind", std::string(to_string(spec.kind))},
      {"name", shell_word(name_of(spec.key))},
      {"key", shell_word(spec.key)}};
  std::string script;
  walk(
      text, [&](std::string_view part) { script += part; },
      [&](std::string_view name) {
        const auto found = values.find(name);
        if (found != values.end()) script += found->second;
      });
  return script;
}

std::string job_comment(std::string_view key) {
  return fmt::format("driftgate/{}", key);
}

std::int64_t time_limit_min(const JobSpec& spec, const SlurmResources& resources) {
  const auto own = (spec.limits.wall_ms + 999) / 1'000;
  const auto later = own > 0 && spec.kind != JobKind::drift ? kAfterOwnLimit_s : 0;
  const auto seconds = resources.time_limit_s > 0 ? resources.time_limit_s : own + later;
  return (seconds + 59) / 60;
}

std::vector<std::string> sbatch_words(const JobSpec& spec, const std::string& job_dir,
                                      const SlurmResources& resources) {
  std::vector<std::string> words{"--parsable",
                                 "--export=NONE",
                                 "--requeue",
                                 "--open-mode=append",
                                 "--job-name=driftgate-" + name_of(spec.key),
                                 "--comment=" + job_comment(spec.key),
                                 "--chdir=" + job_dir,
                                 "--output=slurm-%j.out",
                                 fmt::format("--ntasks={}", spec.ranks),
                                 fmt::format("--cpus-per-task={}", resources.cpus_per_rank)};
  const auto add = [&words](std::string_view option, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("--{}={}", option, value));
  };
  const auto minutes = time_limit_min(spec, resources);
  if (minutes > 0) {
    words.push_back(fmt::format("--time={}", minutes));
    // Slurm looks at limits every half minute: of a short one the worker must keep the most. Ranks are warned
    // themselves, since srun kills them when it is. Other kinds keep nothing that a warning could save.
    if (spec.kind == JobKind::drift)
      words.push_back(fmt::format("--signal={}TERM@{}", spec.ranks == 1 ? "B:" : "",
                                  std::clamp<std::int64_t>(minutes * 6, 1, kSignalLead_s)));
  }
  add("partition", resources.partition);
  add("account", resources.account);
  add("qos", resources.qos);
  add("constraint", resources.constraint);
  if (spec.ranks == 1) {
    words.emplace_back("--nodes=1");
  } else if (resources.nodes > 0) {
    words.push_back(fmt::format("--nodes={}", std::min(resources.nodes, spec.ranks)));
  }
  if (has_gpus(spec, resources)) words.push_back(fmt::format("--gpus-per-task={}", gpus_of(resources.gres)));
  if (resources.memory_bytes_per_rank > 0) {
    const auto cpus = std::max<std::uint64_t>(resources.cpus_per_rank, 1);
    words.push_back(
        fmt::format("--mem-per-cpu={}M", (resources.memory_bytes_per_rank / cpus + kMiB - 1) / kMiB));
  }
  words.push_back(job_dir + "/batch.sh");
  return words;
}

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  }
  return word + "'";
}

}  // namespace driftgate::jobs
