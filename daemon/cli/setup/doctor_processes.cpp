#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "daemon/cli/setup/doctor_checks.hpp"
#include "daemon/cli/setup/ports.hpp"
#include "daemon/route/control/router_driver.hpp"

namespace driftgate::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kRouterAnswers{2'000};

/// The number of the router's process; 0 when none answers.
int check_router(const Deployment& deployment, bool is_running, Findings& into) {
  const auto& socket = deployment.router_socket;
  const std::string where = "router.socket: " + socket.string();
  if (socket.string().size() > kMaxSocketPath) {
    into.error(
        where,
        fmt::format("the path has {} bytes, a socket's at most {}", socket.string().size(), kMaxSocketPath),
        "set router.socket to a shorter path");
    return 0;
  }
  struct stat status {};
  if (::stat(socket.c_str(), &status) != 0) {
    if (errno == EACCES)
      into.skipped("router", fmt::format("{}: {}", socket.string(), std::strerror(errno)));
    else if (is_running)
      into.error(where, std::strerror(errno),
                 "the daemon starts a router anew within seconds; see router.log in data_dir");
    return 0;
  }
  if (::access(socket.c_str(), W_OK) != 0) {
    into.skipped("router", fmt::format("{}: {}", socket.string(), std::strerror(errno)));
    return 0;
  }
  into.checked("router");
  const auto info = route::RouterDriver(socket.string(), kRouterAnswers).info();
  if (info) {
    if (!info->plane_fault.empty())
      into.error(where, info->plane_fault, "see docs/data_planes.md of the data plane " + info->plane);
    if (info->plane != deployment.data_plane)
      into.error(
          "data_plane",
          fmt::format("the running router has {}, the settings say {}", info->plane, deployment.data_plane),
          "driftgate router-stop --socket " + socket.string() + ", then restart the daemon");
    return info->pid;
  }
  if (is_running)
    into.error(where, info.error().message,
               "the daemon replaces a router that hangs; see router.log in data_dir");
  else
    into.warning(where, "a socket is there, and no router answers",
                 "nothing to do: the next start of the daemon replaces it");
  return 0;
}

void check_listen(const std::string& setting, const std::string& listen, Findings& into) {
  const auto [address, port] = address_and_port(listen);
  if (port == 0 || is_free_port(address, port)) return;
  const auto listener = find_listener(port);
  const std::string where = fmt::format("{}: {}", setting, listen);
  if (listener.is_waiting())
    return into.warning(where, "systemd holds the port for a socket unit, and no service runs behind it",
                        "see why it does not run: systemctl status driftgate, journalctl -u driftgate");
  if (listener.is_hidden())
    return into.skipped(where,
                        "a program of root has the port, or systemd for a socket unit; run doctor as root");
  into.error(where, fmt::format("the port is taken by {}", listener_on(port)),
             fmt::format("end that program, or choose another port in the setting '{}'", setting));
}

/// How many files a process may open at most; nothing where that cannot be read.
std::optional<std::uint64_t> descriptor_limit(int pid) {
  if (pid == 0) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
    return limit.rlim_max;  // daemon and router raise theirs to this one
  }
  std::ifstream limits(fmt::format("/proc/{}/limits", pid));
  for (std::string line; std::getline(limits, line);) {
    constexpr std::string_view kLine = "Max open files";
    if (!line.starts_with(kLine)) continue;
    std::uint64_t soft = 0;
    if (std::istringstream(line.substr(kLine.size())) >> soft) return soft;
  }
  return std::nullopt;
}

void check_descriptors(const Deployment& deployment, int router, Findings& into) {
  const auto limit = descriptor_limit(router);
  if (!limit) return into.skipped("limit of open files", "the router belongs to another user");
  into.checked("limit of open files");
  if (*limit >= deployment.descriptors) return;
  into.warning("limit of open files",
               fmt::format("{} for {}, while the settings allow connections that take {}", *limit,
                           router == 0 ? "processes of this user" : "the router", deployment.descriptors),
               "raise it (LimitNOFILE= of the unit, or ulimit -n), or lower router.max_connections");
}

}  // namespace

void check_processes(const Deployment& deployment, bool is_running, Findings& into) {
  const int router = check_router(deployment, is_running, into);
  if (!is_running) check_listen("listen", deployment.listen, into);
  if (router == 0 && !is_running) check_listen("router.listen", deployment.router_listen, into);
  into.checked("ports");
  check_descriptors(deployment, router, into);
}

}  // namespace driftgate::cli
