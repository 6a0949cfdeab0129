#include "tests/daemon/route/haproxy/test_planes.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "daemon/route/haproxy/files.hpp"
#include "daemon/route/haproxy/runtime.hpp"

namespace driftgate::route {

bool holds_in_time(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

namespace {

/// Heartbeats are for the tests that are about them.
void set_long_lease(RouterOptions& options) {
  options.lease_ms = 3'600'000;
}

}  // namespace

EmbeddedPlane::EmbeddedPlane(const TestRouter::Change& change)
    : router_([&](RouterOptions& options) {
        set_long_lease(options);
        if (change) change(options);
      }) {}

GatewayPlane::GatewayPlane(const TestRouter::Change& change)
    : controller_(cluster_), router_([&](RouterOptions& options) {
        set_long_lease(options);
        cluster_.set_options(options);
        if (change) change(options);
      }) {}

#ifdef DRIFTGATE_HAPROXY

namespace {

/// A socket on a free port that nobody else is given, where HAProxy can listen.
base::UniqueFd hold_port(std::uint16_t& port) {
  base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0)
    throw std::runtime_error("no free port");
  port = ntohs(at.sin_port);
  return socket;
}

}  // namespace

HaproxyProcess::HaproxyProcess(std::string config, std::string socket)
    : config_(std::move(config)), socket_(std::move(socket)) {
  start();
}

void HaproxyProcess::start() {
  const auto output = config_ + ".log";
  pid_ = ::fork();
  if (pid_ == 0) {  // only what is safe beside other threads' locks
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves no HAProxy behind
    const int log = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::execl(DRIFTGATE_HAPROXY, DRIFTGATE_HAPROXY, "-db", "-f", config_.c_str(), nullptr);
    ::_exit(127);
  }
  const bool answers = holds_in_time([&] {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) throw std::runtime_error("HAProxy ended; see " + output);
    return haproxy::Runtime(socket_).ask("show info").has_value();
  });
  if (!answers) throw std::runtime_error("HAProxy does not answer; see " + output);
}

void HaproxyProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

HaproxyPlane::HaproxyPlane(const TestRouter::Change& change) {
  std::uint16_t router_port = 0;
  held_ = hold_port(port_);
  held_for_router_ = hold_port(router_port);
  router_.emplace([&](RouterOptions& options) {
    set_long_lease(options);
    options.listen = "127.0.0.1:" + std::to_string(router_port);
    options.haproxy_dir = options.spool_dir + "-haproxy";
    options.haproxy_socket = options.haproxy_dir + "/admin.sock";
    options.haproxy_log = options.haproxy_dir + "/log.sock";
    options.haproxy_bind = "127.0.0.1:" + std::to_string(port_);
    options.haproxy_models = 2;
    options.request_deadline_ms = 30'000;
    if (change) change(options);
  });
  haproxy_.emplace(haproxy::Files{router_->options().haproxy_dir}.config(),
                   router_->options().haproxy_socket);
}

void HaproxyPlane::restart() {
  haproxy_->kill();
  haproxy_->start();
}

#endif

}  // namespace driftgate::route
