#include "daemon/jobs/slurm/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "daemon/base/unique_fd.hpp"

namespace driftgate::jobs {
namespace {

using Clock = std::chrono::steady_clock;
using schema::ErrorCode;

struct Pipe {
  base::UniqueFd reading, writing;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const auto& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Starts it with the two descriptors as its outputs; errno's value when that fails.
int spawn(const Command& command, int out, int err, pid_t& child) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, out, 1);
  ::posix_spawn_file_actions_adddup2(&files, err, 2);
  ::posix_spawn_file_actions_addclosefrom_np(&files, 3);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  const auto argv = pointers(command.argv);
  const auto environment = pointers(command.environment);
  const int failed =
      ::posix_spawn(&child, argv.front(), &files, &attributes, argv.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return failed;
}

/// Reads what there is; closes the descriptor at its end. False when the output became too long.
bool read_some(base::UniqueFd& from, std::string& into, std::size_t most) {
  std::array<char, 65'536> buffer;
  while (from) {
    const auto got = ::read(from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) from = base::UniqueFd();
    if (got > 0) into.append(buffer.data(), static_cast<std::size_t>(got));
    if (into.size() > most) return false;
  }
  return true;
}

class CommandWatch {
 public:
  CommandWatch(const Command& command, pid_t child, base::UniqueFd out, base::UniqueFd err)
      : command_(command),
        child_(child),
        out_(std::move(out)),
        err_(std::move(err)),
        process_(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U))) {}

  schema::Result<CommandEnd> until_end() {
    const auto deadline = Clock::now() + command_.limit;
    auto fault = follow(deadline);
    ::kill(-child_, SIGKILL);  // what it left behind too
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED) != 0 && errno == EINTR) continue;
    if (fault) return std::unexpected(std::move(*fault));
    if (!read_all()) return std::unexpected(too_long());
    if (info.si_code == CLD_EXITED) end_.exit_code = info.si_status;
    return std::move(end_);
  }

 private:
  std::optional<schema::Error> follow(Clock::time_point deadline) {
    while (true) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        return schema::Error{
            ErrorCode::deadline_exceeded,
            fmt::format("{} gave no answer within {} ms", command_.argv.front(), command_.limit.count()),
            {},
            nullptr};
      }
      pollfd waits[4] = {{process_.get(), POLLIN, 0},
                         {out_ ? out_.get() : -1, POLLIN, 0},
                         {err_ ? err_.get() : -1, POLLIN, 0},
                         {command_.stop_fd, POLLIN, 0}};
      if (::poll(waits, 4, static_cast<int>(std::min<std::int64_t>(left, 60'000))) < 0 && errno != EINTR)
        return schema::Error{ErrorCode::io, fmt::format("poll: {}", std::strerror(errno)), {}, nullptr};
      if (!read_all()) return too_long();
      if (waits[3].revents != 0)
        return schema::Error{ErrorCode::unavailable,
                             fmt::format("{} was stopped with the daemon", command_.argv.front()),
                             {},
                             nullptr};
      if (waits[0].revents != 0) return std::nullopt;
    }
  }

  bool read_all() {
    return read_some(out_, end_.out, command_.output_bytes) &&
           read_some(err_, end_.err, command_.output_bytes);
  }

  [[nodiscard]] schema::Error too_long() const {
    return {ErrorCode::limit_exceeded,
            fmt::format("{} wrote more than {} bytes", command_.argv.front(), command_.output_bytes),
            {},
            nullptr};
  }

  const Command& command_;
  pid_t child_;
  base::UniqueFd out_, err_, process_;
  CommandEnd end_;
};

}  // namespace

schema::Result<CommandEnd> run_command(const Command& command) {
  auto out = make_pipe();
  auto err = make_pipe();
  if (!out || !err)
    return schema::fail(ErrorCode::io, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  pid_t child = 0;
  if (const int failed = spawn(command, out->writing.get(), err->writing.get(), child); failed != 0) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("cannot start {}: {}", command.argv.front(), std::strerror(failed)));
  }
  out->writing = base::UniqueFd();
  err->writing = base::UniqueFd();
  return CommandWatch(command, child, std::move(out->reading), std::move(err->reading)).until_end();
}

}  // namespace driftgate::jobs
