#include "daemon/jobs/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "daemon/base/unique_fd.hpp"

namespace driftgate::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using schema::ErrorCode;

/// Rounds of "kill every child that is left": each round also meets the children of those killed before.
constexpr int kMaxReapRounds = 1'000;
constexpr int kStartFailed = 127;
constexpr std::uint64_t kAfterCpuLimit_s = 5;  ///< from SIGXCPU to SIGKILL
/// What Slurm says in a job's environment of the devices that the job may use.
constexpr std::array kPassedOn{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                               "SLURM_JOB_ID"};

std::vector<char*> words_of(const std::vector<std::string>& texts) {
  std::vector<char*> words;
  for (const auto& text : texts) words.push_back(const_cast<char*>(text.c_str()));
  words.push_back(nullptr);
  return words;
}

/// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(const Program& program, char* const* argv, char* const* environment, int output) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the worker's end is the program's end
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(output, 1);
  ::dup2(output, 2);
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
  set_limit(RLIMIT_AS, program.limits.address_space_bytes);
  set_limit(RLIMIT_CPU, program.limits.cpu_seconds);
  set_limit(RLIMIT_CORE, 1);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::chdir(program.working_folder.c_str()) != 0) ::_exit(kStartFailed);
  ::execve(argv[0], argv, environment);
  ::_exit(kStartFailed);
}

/// Kills what is left of the group and of this process's other children; orphans come to it because it
/// is their subreaper.
void reap_all(pid_t group) {
  for (int round = 0; round < kMaxReapRounds; ++round) {
    ::kill(-group, SIGKILL);
    std::ifstream children(fmt::format("/proc/self/task/{}/children", ::gettid()));
    for (pid_t child = 0; children >> child;) ::kill(child, SIGKILL);
    if (::waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

class Watch {
 public:
  Watch(const Program& program, pid_t child, base::UniqueFd output)
      : program_(program),
        child_(child),
        output_(std::move(output)),
        process_(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U))) {}

  schema::Result<ProgramEnd> until_end() {
    const auto deadline = Clock::now() + std::chrono::milliseconds(program_.limits.wall_ms);
    bool ended = false;
    while (!ended) {
      int wait_ms = -1;
      if (program_.limits.wall_ms > 0) {
        const auto left = deadline - Clock::now();
        if (left <= Clock::duration::zero()) return timed_out();
        wait_ms = static_cast<int>(
            std::min<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 60'000));
      }
      pollfd waits[2] = {{process_.get(), POLLIN, 0}, {output_ ? output_.get() : -1, POLLIN, 0}};
      if (::poll(waits, 2, wait_ms) < 0 && errno != EINTR) break;
      if (waits[1].revents != 0) read_output();
      ended = waits[0].revents != 0;
    }
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED);
    read_rest();
    reap_all(child_);
    if (info.si_code == CLD_EXITED) {
      end_.exit_code = info.si_status;
    } else {
      end_.signal = info.si_status;
    }
    return std::move(end_);
  }

 private:
  schema::Result<ProgramEnd> timed_out() {
    reap_all(child_);
    return schema::fail(
        ErrorCode::deadline_exceeded,
        fmt::format("{} ran longer than its limit of {} ms and was killed with its process group",
                    program_.argv.front(), program_.limits.wall_ms));
  }

  bool read_output() {
    char buffer[65'536];
    const auto got = ::read(output_.get(), buffer, sizeof buffer);
    if (got <= 0) {
      if (got == 0 || (errno != EAGAIN && errno != EINTR)) output_ = base::UniqueFd();
      return false;
    }
    const auto room = program_.limits.output_bytes - end_.output.size();
    end_.output_cut = end_.output_cut || static_cast<std::uint64_t>(got) > room;
    const std::string_view kept(buffer,
                                std::min(static_cast<std::size_t>(got), static_cast<std::size_t>(room)));
    end_.output.append(kept);
    if (program_.on_output && !kept.empty()) program_.on_output(kept);
    return true;
  }

  /// Reads what the pipe holds already, without waiting for a grandchild that keeps it open.
  void read_rest() {
    for (int i = 0; i < 16 && output_; ++i) {
      if (!read_output()) return;
    }
  }

  const Program& program_;
  pid_t child_;
  base::UniqueFd output_;
  base::UniqueFd process_;
  ProgramEnd end_;
};

}  // namespace

std::vector<std::string> environment_of_program() {
  std::vector<std::string> environment{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"};
  for (const auto* const name : kPassedOn) {
    const char* const value = std::getenv(name);
    if (value != nullptr) environment.push_back(fmt::format("{}={}", name, value));
  }
  return environment;
}

void set_limit(__rlimit_resource resource, std::uint64_t value) {
  if (value == 0) return;
  // With both alike the kernel sends SIGKILL at once, which says nothing of its reason.
  const std::uint64_t grace = resource == RLIMIT_CPU ? kAfterCpuLimit_s : 0;
  const rlimit limit{value, value + grace};
  (void)::setrlimit(resource, &limit);
}

schema::Result<ProgramEnd> run_program(const Program& program) {
  if (program.argv.empty() || !program.argv.front().starts_with('/')) {
    return schema::fail(ErrorCode::invalid_argument,
                        "an adapter's first word must be the absolute path of a program");
  }
  if (::access(program.argv.front().c_str(), X_OK) != 0) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("{} is not an executable program", program.argv.front()));
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return schema::fail(ErrorCode::io, "cannot make a pipe");
  base::UniqueFd reading(pipe_ends[0]);
  base::UniqueFd writing(pipe_ends[1]);
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  const auto argv = words_of(program.argv);
  const auto variables = environment_of_program();
  const auto environment = words_of(variables);
  const pid_t child = ::fork();
  if (child < 0) return schema::fail(ErrorCode::io, fmt::format("cannot fork: {}", std::strerror(errno)));
  if (child == 0) become(program, argv.data(), environment.data(), writing.get());
  ::setpgid(child, child);
  writing = base::UniqueFd();
  if (program.on_start) program.on_start(child);
  return Watch(program, child, std::move(reading)).until_end();
}

}  // namespace driftgate::jobs
