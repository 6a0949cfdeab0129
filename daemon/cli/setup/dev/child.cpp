#include "daemon/cli/setup/dev/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/poll_until.hpp"
#include "daemon/cli/setup/dev/keeper.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// In the child, between fork and exec. Writes errno to `failure` where the program cannot be run.
[[noreturn]] void become(char* const* words, int log, int nothing, int failure, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // it died before it could be watched
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv(words[0], words);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Child::Child(Child&& other) noexcept
    : name_(std::move(other.name_)),
      log_(std::move(other.log_)),
      pid_(std::exchange(other.pid_, -1)),
      kill_signal_(other.kill_signal_),
      process_(std::move(other.process_)),
      end_(std::move(other.end_)) {}

Child::~Child() {
  if (pid_ > 0 && !ended()) {
    ::kill(pid_, kill_signal_);
    ::waitpid(pid_, nullptr, 0);
  }
}

schema::Result<Child> Child::start(std::string name, const std::vector<std::string>& words,
                                   const fs::path& log, Keep keeping) {
  const base::UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!out) return base::file_failure("write", log);
  const base::UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return base::file_failure("start", words.at(0));
  const base::UniqueFd heard(ends[0]);
  base::UniqueFd told(ends[1]);
  std::vector<char*> pointers;
  for (const auto& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  Child child;
  child.name_ = std::move(name);
  child.log_ = log;
  child.pid_ = ::fork();
  if (child.pid_ < 0) return base::file_failure("start", words.at(0));
  const auto run = [&](pid_t above) { become(pointers.data(), out.get(), nothing.get(), told.get(), above); };
  if (child.pid_ == 0 && keeping == Keep::all) keep(parent, run);
  if (child.pid_ == 0) run(parent);
  child.kill_signal_ = keeping == Keep::all ? kKillNow : SIGKILL;
  child.process_ = base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  told.reset();
  int error = 0;
  if (::read(heard.get(), &error, sizeof error) == sizeof error) {
    errno = error;
    return base::file_failure("run", words.at(0));
  }
  return child;
}

std::optional<std::string> Child::ended() {
  if (end_ || pid_ <= 0) return end_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  end_ = WIFSIGNALED(status) ? fmt::format("by signal {}", WTERMSIG(status))
                             : fmt::format("with exit code {}", WEXITSTATUS(status));
  return end_;
}

bool Child::stop(std::chrono::milliseconds patience) {
  if (pid_ <= 0 || ended()) return true;
  ::kill(pid_, SIGTERM);
  const bool in_time = base::poll_until(process_.get(), POLLIN, Clock::now() + patience) > 0;
  if (!in_time) ::kill(pid_, kill_signal_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  end_ = "when it was told to";
  return in_time;
}

std::string tail_of(const fs::path& file) {
  constexpr std::streamoff kBytes = 2'000;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = in.tellg();
  if (size <= 0) return {};
  in.seekg(size > kBytes ? size - kBytes : 0);
  std::string text(static_cast<std::size_t>(std::min(size, kBytes)), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

}  // namespace driftgate::cli
