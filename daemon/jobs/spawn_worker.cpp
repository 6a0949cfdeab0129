#include "daemon/jobs/spawn_worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <utility>

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr int kStartFailed = 127;

[[noreturn]] void become(char* const* argv, int lock, int pid_file, int log) {
  ::setpgid(0, 0);
  char text[16];  // by to_chars, which neither allocates nor locks: this runs between fork and exec
  const auto length = std::to_chars(std::begin(text), std::end(text), ::getpid()).ptr - text;
  if (::write(pid_file, text, static_cast<std::size_t>(length)) != length) ::_exit(kStartFailed);
  const int null = ::open("/dev/null", O_RDONLY);
  // Above the standard ones first, so that no dup2 below overwrites a descriptor still needed.
  const int high_lock = ::fcntl(lock, F_DUPFD, 10);
  const int high_log = ::fcntl(log, F_DUPFD, 10);
  const int high_null = ::fcntl(null, F_DUPFD, 10);
  ::dup2(high_null, 0);
  ::dup2(high_log, 1);
  ::dup2(high_log, 2);
  ::dup2(high_lock, kLockDescriptor);
  ::syscall(SYS_close_range, static_cast<unsigned>(kLockDescriptor + 1), ~0U, 0U);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const char* const environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
                                     "DRIFTGATE_LOCK_HELD=1", nullptr};
  ::execve(argv[0], argv, const_cast<char* const*>(environment));
  ::_exit(kStartFailed);
}

base::UniqueFd create(const std::string& path) {
  return base::UniqueFd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
}

}  // namespace

schema::Result<WorkerProcess> spawn_worker(const JobFolder& folder, std::vector<std::string> argv) {
  auto lock = TRY(folder.lock());
  const auto pid_file = create(folder.file("pid"));
  const auto log = create(folder.file("log"));
  if (!pid_file || !log) {
    return schema::fail(ErrorCode::io,
                        fmt::format("cannot write in {}: {}", folder.path().string(), std::strerror(errno)));
  }
  argv.push_back(folder.path().string());
  std::vector<char*> words;
  for (auto& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0)
    return schema::fail(ErrorCode::unavailable, fmt::format("cannot fork: {}", std::strerror(errno)));
  if (child == 0) become(words.data(), lock.get(), pid_file.get(), log.get());
  ::setpgid(child, child);
  return WorkerProcess{child, base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U)))};
}

WorkerProcess adopt_worker(const JobFolder& folder) {
  const int pid = folder.number_in("pid");
  if (pid == 0) return {};
  base::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
  // Only a lock still held after the descriptor was opened says that the number was not given to another
  // process.
  if (!pidfd || folder.lock_is_free()) return {};
  return WorkerProcess{pid, std::move(pidfd)};
}

void kill_worker(const JobFolder& folder, int pid) {
  const int group = folder.number_in("group");
  if (group > 1) ::kill(-group, SIGKILL);
  if (pid > 1) ::kill(-pid, SIGKILL);
}

}  // namespace driftgate::jobs
