#include "daemon/cli/setup/dev/keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <fstream>
#include <optional>

namespace driftgate::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{30};

class Kept {
 public:
  explicit Kept(pid_t program) : program_(program) {}

  /// Takes note of processes that ended; false once none is left.
  bool remain() {
    for (;;) {
      int status = 0;
      const pid_t gone = ::waitpid(-1, &status, WNOHANG);
      if (gone == 0) return true;
      if (gone < 0 && errno != EINTR) return false;
      if (gone > 0 && gone == program_) note(status);
    }
  }

  [[nodiscard]] bool has_ended() const { return program_ < 0; }

  /// To the program's group while the program is there, and to every child of this process that is not in it:
  /// those that lost their parent.
  void send(int number) const {
    if (program_ > 0) ::kill(-program_, number);
    std::ifstream children(fmt::format("/proc/self/task/{}/children", ::getpid()));
    for (pid_t child = 0; children >> child;)
      if (program_ < 0 || ::getpgid(child) != program_) ::kill(child, number);
  }

  /// What lost its parent by the death of another is killed in the next round.
  void kill_all() {
    for (;;) {
      send(SIGKILL);
      int status = 0;
      const pid_t gone = ::waitpid(-1, &status, 0);
      if (gone < 0 && errno != EINTR) return;
      if (gone > 0 && gone == program_) note(status);
    }
  }

  [[noreturn]] void end_as_the_program() const {
    if (WIFEXITED(status_)) ::_exit(WEXITSTATUS(status_));
    const rlimit none{0, 0};  // the program's core is enough
    ::setrlimit(RLIMIT_CORE, &none);
    const int number = WTERMSIG(status_);
    std::signal(number, SIG_DFL);
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, number);
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::kill(::getpid(), number);
    ::_exit(128 + number);
  }

 private:
  void note(int status) {
    program_ = -1;
    status_ = status;
  }

  pid_t program_;
  int status_ = 0;
};

/// The next signal of a set; 0 once the time is over, if there is one.
int next_signal(const sigset_t& set, const std::optional<Clock::time_point>& deadline) {
  for (;;) {
    int number = -1;
    if (deadline) {
      const auto left =
          std::chrono::duration_cast<std::chrono::nanoseconds>(*deadline - Clock::now()).count();
      if (left <= 0) return 0;
      const timespec time{left / 1'000'000'000, left % 1'000'000'000};
      number = ::sigtimedwait(&set, nullptr, &time);
    } else {
      number = ::sigwaitinfo(&set, nullptr);
    }
    if (number > 0) return number;
  }
}

void look_after(Kept& kept, const sigset_t& set) {
  std::optional<Clock::time_point> deadline;
  bool told_rest = false;
  while (kept.remain()) {
    // What had left the program's group is seen once the program has ended.
    if (kept.has_ended() && !told_rest) {
      told_rest = true;
      if (!deadline) deadline = Clock::now() + kPatience;
      kept.send(SIGTERM);
    }
    const int number = next_signal(set, deadline);
    if (number == 0 || number == kKillNow) return kept.kill_all();
    if (number == SIGTERM && !deadline) {
      deadline = Clock::now() + kPatience;
      kept.send(SIGTERM);
    }
  }
}

}  // namespace

void keep(pid_t parent, const std::function<void(pid_t)>& run) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGCHLD, kKillNow}) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // an ignored one would take their ends away
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // it died before it could be watched
  const pid_t keeper = ::getpid();
  const pid_t program = ::fork();
  if (program == 0) run(keeper);
  if (program < 0) ::_exit(127);
  ::setpgid(program, program);  // whoever comes first
  ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  for (int i = 0; i < 3; ++i) [[maybe_unused]] const int nothing = ::open("/dev/null", O_RDWR);
  Kept kept(program);
  look_after(kept, set);
  kept.end_as_the_program();
}

}  // namespace driftgate::cli
