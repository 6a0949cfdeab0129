#include "daemon/route/control/spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <thread>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/control/launcher.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/worker/process_threads.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr std::chrono::milliseconds kPoll{10};
constexpr int kExitNoExec = 127;

std::unexpected<schema::Error> failed(std::string_view what) {
  return schema::failf(schema::ErrorCode::io, "cannot start the router: {}: {}", what, std::strerror(errno));
}

/// What the forked child needs, gathered before the fork.
struct Launch {
  const char* executable = nullptr;
  std::vector<char*> words{};
  std::vector<int> listeners{};
  int log = -1;
  int pid_pipe = -1;  ///< gets the router's process id
};

/// Places the listening sockets at kFirstListener and on, without close-on-exec; first out of each other's
/// way.
void place_listeners(std::vector<int>& listeners) {
  const auto count = static_cast<int>(listeners.size());
  for (auto& listener : listeners) listener = ::fcntl(listener, F_DUPFD, kFirstListener + count);
  for (int i = 0; i < count; ++i) ::dup2(listeners[static_cast<std::size_t>(i)], kFirstListener + i);
}

/// Runs in the forked child: only async-signal-safe calls, since other threads may hold any lock.
[[noreturn]] void become_router(Launch& launch) {
  ::setsid();
  // A second fork gives the router to init: the daemon has no child to reap, and dies without it.
  const pid_t second = ::fork();
  if (second != 0) {
    const bool told = second > 0 && ::write(launch.pid_pipe, &second, sizeof second) == sizeof second;
    ::_exit(told ? 0 : kExitNoExec);
  }
  const int null_fd = ::open("/dev/null", O_RDONLY);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(launch.log, STDOUT_FILENO);
  ::dup2(launch.log, STDERR_FILENO);
  place_listeners(launch.listeners);
  ::close_range(static_cast<unsigned>(kFirstListener) + static_cast<unsigned>(launch.listeners.size()),
                UINT_MAX, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);
  ::execv(launch.executable, launch.words.data());
  static constexpr char kMessage[] = "cannot execute the router program\n";
  if (::write(STDERR_FILENO, kMessage, sizeof kMessage - 1) < 0) ::_exit(kExitNoExec);
  ::_exit(kExitNoExec);
}

/// The words of the router's command line. With sockets handed over it has a thread for each.
std::vector<std::string> command_line(const SpawnOptions& options) {
  auto router = options.router;
  router.listen_fds = static_cast<std::uint32_t>(options.listeners.size());
  if (router.listen_fds > 0) router.threads = router.listen_fds;
  std::vector<std::string> words{options.executable};
  words.insert(words.end(), options.words.begin(), options.words.end());
  const auto arguments = to_arguments(router);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

schema::Result<ProcessHandle> launch_here(const SpawnOptions& options) {
  const base::UniqueFd log(::open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return failed(fmt::format("opening its log {}", options.log_path));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
  const base::UniqueFd from_child(ends[0]);
  base::UniqueFd to_parent(ends[1]);
  auto words = command_line(options);
  Launch launch{options.executable.c_str(), {}, {}, log.get(), to_parent.get()};
  for (auto& word : words) launch.words.push_back(word.data());
  launch.words.push_back(nullptr);
  for (const auto& listener : options.listeners) launch.listeners.push_back(listener.get());
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) become_router(launch);
  to_parent.reset();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return failed("waitpid");
  }
  pid_t router = 0;
  const bool told = ::read(from_child.get(), &router, sizeof router) == sizeof router;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !told) return failed("second fork");
  return ProcessHandle::of(router);
}

/// Starts the process; who it is, so that its end is noticed. A launcher that is only late does no harm: of
/// two routers the one that has the control socket's lock goes on.
schema::Result<ProcessHandle> launch(const SpawnOptions& options) {
  if (options.launcher.empty()) return launch_here(options);
  const LaunchOrder order{options.executable, command_line(options), options.log_path};
  auto launched = launch_by(options.launcher, order, options.listeners,
                            std::chrono::steady_clock::now() + options.deadline);
  if (launched) return launched;
  if (options.log)
    options.log("error",
                fmt::format("{}. The daemon starts the router itself, which then belongs to the "
                            "daemon's unit and ends with it: once the launcher works again, have the "
                            "router handed over (systemctl reload driftgate, or SIGUSR2)",
                            launched.error().describe()));
  return launch_here(options);
}

/// A router that drains ends within its drain time; the next one starts when it is gone. Its lock is given up
/// last, so a free lock says so.
schema::Result<RouterProcess> wait_for_end(const SpawnOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.deadline +
                        std::chrono::milliseconds(options.router.drain_ms);
  while (std::chrono::steady_clock::now() < deadline) {
    if (lock_file(options.router.control_path + ".lock"))
      return schema::fail(schema::ErrorCode::unavailable, "the previous router has ended");
    std::this_thread::sleep_for(kPoll);
  }
  return schema::failf(schema::ErrorCode::deadline_exceeded,
                       "the router on {} was told to stop and still serves; stop it and start again",
                       options.router.control_path);
}

}  // namespace

schema::Result<RouterProcess> adopt_router(const std::string& control_path,
                                           std::chrono::milliseconds answer) {
  RouterDriver driver(control_path, answer);
  auto info = TRY(driver.info());
  return RouterProcess{std::move(info), true};
}

schema::Result<RouterProcess> spawn_router(const SpawnOptions& options) {
  auto living = adopt_router(options.router.control_path, options.answer);
  if (living && living->info.draining) living = wait_for_end(options);
  if (living || living.error().code != schema::ErrorCode::unavailable) return living;
  auto process = TRY(launch(options));
  const auto deadline = std::chrono::steady_clock::now() + options.deadline;
  bool ended = false;
  while (!ended && std::chrono::steady_clock::now() < deadline) {
    auto started = adopt_router(options.router.control_path, options.answer);
    if (started) {
      started->adopted = false;
      return started;
    }
    ended = process.wait(kPoll);
  }
  process.kill();
  const auto why = ended ? std::string("ended before it answered")
                         : fmt::format("did not answer within {} ms", options.deadline.count());
  return schema::failf(schema::ErrorCode::deadline_exceeded, "the router on {} {}; see its log {}",
                       options.router.control_path, why, options.log_path);
}

}  // namespace driftgate::route
