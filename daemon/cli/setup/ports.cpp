#include "daemon/cli/setup/ports.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "daemon/base/unique_fd.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;

/// The inodes of the sockets that listen on a port and their owners, by a table of /proc/net.
void add_listening(const char* table, std::uint16_t port, std::set<std::string>& inodes,
                   std::set<uid_t>& users) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) {
    // sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
    std::istringstream words(line);
    std::string number, local, remote, state, skip, inode;
    uid_t user = 0;
    words >> number >> local >> remote >> state >> skip >> skip >> skip >> user >> skip >> inode;
    if (!words) continue;
    constexpr std::string_view kListens = "0A";
    if (state == kListens && local.ends_with(fmt::format(":{:04X}", port))) {
      inodes.insert(inode);
      users.insert(user);
    }
  }
}

bool holds_one_of(const fs::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(at->path(), gone).string();
    constexpr std::string_view kSocket = "socket:[";
    if (target.starts_with(kSocket) &&
        inodes.contains(target.substr(kSocket.size(), target.size() - kSocket.size() - 1)))
      return true;
  }
  return false;
}

}  // namespace

bool is_free_port(const std::string& address, std::uint16_t port) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  const std::string numeric = address == "localhost" ? "127.0.0.1" : address.empty() ? "0.0.0.0" : address;
  const bool is_six = ::inet_pton(AF_INET6, numeric.c_str(), &six.sin6_addr) == 1;
  if (!is_six && ::inet_pton(AF_INET, numeric.c_str(), &four.sin_addr) != 1) return true;
  const base::UniqueFd socket(::socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return true;
  const int on = 1;  // what is left of connections that were closed does not count
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* const at =
      is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  return ::bind(socket.get(), at, is_six ? sizeof six : sizeof four) == 0 || errno != EADDRINUSE;
}

std::uint16_t first_free_port(std::uint16_t from, const std::vector<std::uint16_t>& chosen) {
  constexpr int kTried = 1'000;
  for (int i = 0; i < kTried && from + i <= 0xffff; ++i) {
    const auto port = static_cast<std::uint16_t>(from + i);
    if (std::ranges::find(chosen, port) == chosen.end() && is_free_port("127.0.0.1", port)) return port;
  }
  return from;
}

Listener find_listener(std::uint16_t port) {
  Listener found;
  std::set<std::string> inodes;
  add_listening("/proc/net/tcp", port, inodes, found.users);
  add_listening("/proc/net/tcp6", port, inodes, found.users);
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string pid = at->path().filename().string();
    if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!holds_one_of(at->path(), inodes)) continue;
    struct stat status {};
    const auto read = std::from_chars(pid.data(), pid.data() + pid.size(), found.pid);
    if (read.ec != std::errc{} || ::stat(at->path().c_str(), &status) != 0) continue;
    found.holder = status.st_uid;
    found.name.clear();
    std::getline(std::ifstream(at->path() / "comm") >> std::ws, found.name);
    if (found.name.empty()) found.name = "a program";
    if (!found.is_waiting()) return found;  // else the service has it too, if it runs
  }
  return found;
}

std::string listener_on(std::uint16_t port) {
  const auto found = find_listener(port);
  return found.pid == 0 ? "another program" : fmt::format("{} (pid {})", found.name, found.pid);
}

}  // namespace driftgate::cli
