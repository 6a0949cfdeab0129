#include "daemon/route/spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <thread>

#include "daemon/route/unique_fd.hpp"
#include "daemon/route/unix_socket.hpp"

namespace driftgate::route {
namespace {

constexpr std::chrono::milliseconds kPoll{10};
constexpr int kExitNoExec = 127;

std::unexpected<schema::Error> failed(std::string_view what) {
  return schema::fail(schema::ErrorCode::io,
                      fmt::format("cannot start the router: {}: {}", what, std::strerror(errno)));
}

/// Runs in the forked child: only async-signal-safe calls, since other threads may hold any lock.
[[noreturn]] void become_router(int log_fd, const char* executable, char* const* words) {
  ::setsid();
  // A second fork gives the router to init: the daemon has no child to reap, and dies without it.
  const pid_t second = ::fork();
  if (second != 0) ::_exit(second < 0 ? kExitNoExec : 0);
  const int null_fd = ::open("/dev/null", O_RDONLY);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(log_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  ::close_range(STDERR_FILENO + 1, UINT_MAX, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);
  ::execv(executable, words);
  static constexpr char kMessage[] = "cannot execute the router's program\n";
  if (::write(STDERR_FILENO, kMessage, sizeof kMessage - 1) < 0) ::_exit(kExitNoExec);
  ::_exit(kExitNoExec);
}

schema::Result<void> launch(const SpawnOptions& options) {
  const UniqueFd log(::open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return failed(fmt::format("opening its log {}", options.log_path));
  std::vector<std::string> words{options.executable};
  words.insert(words.end(), options.words.begin(), options.words.end());
  const auto arguments = to_arguments(options.router);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) become_router(log.get(), options.executable.c_str(), pointers.data());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return failed("waitpid");
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return failed("second fork");
  return {};
}

/// A router that drains ends within its drain time; the next one starts when it is gone. Its lock is given up
/// last, so a free lock says so.
schema::Result<RouterProcess> wait_for_end(const SpawnOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.deadline +
                        std::chrono::milliseconds(options.router.drain_ms);
  while (std::chrono::steady_clock::now() < deadline) {
    if (const auto lock = lock_file(options.router.control_path + ".lock")) {
      const UniqueFd given_back(*lock);
      return schema::fail(schema::ErrorCode::unavailable, "the router before has ended");
    }
    std::this_thread::sleep_for(kPoll);
  }
  return schema::fail(
      schema::ErrorCode::deadline_exceeded,
      fmt::format("the router on {} was told to end and still serves; stop it, then start again",
                  options.router.control_path));
}

}  // namespace

schema::Result<RouterProcess> adopt_router(const std::string& control_path) {
  RouterDriver driver(control_path);
  auto info = driver.info();
  if (!info) return std::unexpected(info.error());
  return RouterProcess{std::move(*info), true};
}

schema::Result<RouterProcess> spawn_router(const SpawnOptions& options) {
  auto living = adopt_router(options.router.control_path);
  if (living && living->info.draining) living = wait_for_end(options);
  if (living || living.error().code != schema::ErrorCode::unavailable) return living;
  if (auto launched = launch(options); !launched) return std::unexpected(launched.error());
  const auto deadline = std::chrono::steady_clock::now() + options.deadline;
  while (std::chrono::steady_clock::now() < deadline) {
    auto started = adopt_router(options.router.control_path);
    if (started) {
      started->adopted = false;
      return started;
    }
    std::this_thread::sleep_for(kPoll);
  }
  return schema::fail(schema::ErrorCode::deadline_exceeded,
                      fmt::format("the router did not answer on {} within {} ms; its log {} says why",
                                  options.router.control_path, options.deadline.count(), options.log_path));
}

}  // namespace driftgate::route
