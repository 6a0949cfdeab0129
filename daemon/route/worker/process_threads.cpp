#include "daemon/route/worker/process_threads.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/base/poll_until.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

constexpr int kFieldsBeforeTimes = 10;  // of stat, from the parent's id to the faults of children
constexpr const char* kEstablished = "01";

std::optional<ThreadState> read_thread(const std::filesystem::path& folder) {
  std::ifstream file(folder / "stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const auto name_end = text.rfind(')');  // a name may hold anything, brackets and spaces too
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ThreadState thread;
  std::string skipped;
  fields >> thread.state;
  for (int i = 0; i < kFieldsBeforeTimes; ++i) fields >> skipped;
  std::int64_t user = 0;
  std::int64_t system = 0;
  if (!(fields >> user >> system)) return std::nullopt;
  thread.cpu = std::chrono::milliseconds((user + system) * 1'000 / ::sysconf(_SC_CLK_TCK));
  thread.tid = std::atoi(folder.filename().c_str());
  std::int64_t ran_ns = 0;
  std::int64_t waited_ns = 0;
  if (std::ifstream(folder / "schedstat") >> ran_ns >> waited_ns)
    thread.waited = std::chrono::milliseconds(waited_ns / 1'000'000);
  return thread;
}

/// Counts lines of /proc/net/tcp or tcp6: "sl local:port remote:port st tx:rx … uid timeout inode".
bool add_unread(const char* path, int port, std::size_t& count) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return false;
  const auto wanted = fmt::format(":{:04X}", port);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    const auto unread = queues.substr(std::min(queues.find(':') + 1, queues.size()));
    // A connection that waits to be accepted has no inode: it is not lost with the process.
    const bool accepted = !inode.empty() && inode != "0";
    if (local.ends_with(wanted) && state == kEstablished && accepted &&
        unread.find_first_not_of('0') != std::string::npos)
      ++count;
  }
  return true;
}

}  // namespace

std::vector<ThreadState> threads_of(int pid) {
  std::vector<ThreadState> threads;
  std::error_code error;
  const auto folder = fmt::format("/proc/{}/task", pid);
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto thread = read_thread(entry->path())) threads.push_back(*thread);
  }
  return threads;
}

schema::Result<ProcessHandle> ProcessHandle::of(int pid) {
  // By number: the C library's header (glibc 2.36) declares these functions with C++ linkage.
  base::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return ProcessHandle(pid, std::move(fd));
  return schema::failf(schema::ErrorCode::unavailable, "process {} cannot be watched: {}", pid,
                       std::strerror(errno));
}

schema::Result<ProcessHandle> ProcessHandle::of_peer(int socket) {
  const auto pid = TRY(peer_process(socket));
  auto process = of(pid);
  if (!process) return process;
  // Still connected: then the process lived when it was opened, and the number is not another one's.
  pollfd connection{socket, POLLRDHUP, 0};
  if (::poll(&connection, 1, 0) == 0) return process;
  return schema::failf(schema::ErrorCode::unavailable, "process {} has ended", pid);
}

bool ProcessHandle::ended() const {
  return wait(std::chrono::milliseconds(0));
}

bool ProcessHandle::wait(std::chrono::milliseconds limit) const {
  return base::poll_until(fd_.get(), POLLIN, std::chrono::steady_clock::now() + limit) > 0;
}

void ProcessHandle::kill() const {
  ::syscall(SYS_pidfd_send_signal, fd_.get(), SIGKILL, nullptr, 0);
}

std::optional<std::size_t> unread_connections(int port) {
  std::size_t count = 0;
  const bool four = add_unread("/proc/net/tcp", port, count);
  const bool six = add_unread("/proc/net/tcp6", port, count);
  if (four || six) return count;
  return std::nullopt;
}

}  // namespace driftgate::route
