#include "daemon/route/control/launcher.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "daemon/route/control/frame.hpp"
#include "daemon/route/control/spawn.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/worker/listeners.hpp"
#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;
using driftgate::base::UniqueFd;

namespace {

const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(120); };

/// Starts a program for each connection, which is its standard input: what a service manager does for a
/// socket with Accept=yes.
class Manager {
 public:
  explicit Manager(const std::string& path, std::string program = DRIFTGATE_ROUTER_PROCESS)
      : program_(std::move(program)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    auto made = listen_unix(path);
    REQUIRE(made);
    socket_ = std::move(*made);
    thread_ = std::thread([this] { run(); });
  }
  ~Manager() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
    for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

 private:
  void run() {
    for (;;) {
      std::array<pollfd, 2> watched{{{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}}};
      ::poll(watched.data(), watched.size(), -1);
      if (watched[0].revents != 0) return;
      const UniqueFd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection) start(connection.get());
    }
  }
  void start(int connection) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, connection, 0);
    std::string router = "router", launched = "--launched";
    std::array<char*, 4> words{program_.data(), router.data(), launched.data(), nullptr};
    pid_t child = 0;
    if (::posix_spawn(&child, program_.c_str(), &actions, nullptr, words.data(), environ) == 0)
      children_.push_back(child);
    posix_spawn_file_actions_destroy(&actions);
  }

  std::string program_;
  UniqueFd stop_, socket_;
  std::vector<pid_t> children_;
  std::thread thread_;
};

struct Launched {
  TemporaryFolder folder;
  SpawnOptions options;
  std::optional<std::string> logged;  ///< what the daemon's log says, as an error

  Launched() {
    options.log = [this](std::string_view level, const std::string& text) {
      CHECK(level == "error");
      logged = text;
    };
    options.router.control_path = folder.at("control");
    options.router.spool_dir = folder.at("spool");
    options.router.state_path = folder.at("state");
    options.log_path = folder.at("log");
    options.deadline = std::chrono::seconds(120);
    options.executable = DRIFTGATE_ROUTER_PROCESS;
    options.launcher = folder.at("launcher");
  }
};

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string reply_to(const std::string& launcher, const std::string& bytes) {
  const auto connection = connect_unix(launcher);
  REQUIRE(connection);
  REQUIRE(write_all(connection->get(), bytes, soon()));
  ::shutdown(connection->get(), SHUT_WR);
  std::string buffer;
  return read_frame(connection->get(), buffer, soon()).value_or("");
}

}  // namespace

TEST_CASE("a service manager starts the router, on the daemon's sockets and with the daemon's options") {
  Launched launched;
  auto& options = launched.options;
  const Manager manager(options.launcher);
  auto listeners = bind_listeners("127.0.0.1:0", 16);  // as many as a message carries
  REQUIRE(listeners);
  const auto port = listening_port(listeners->front().get());
  REQUIRE(port);
  options.listeners = std::move(*listeners);
  const auto router = spawn_router(options);
  REQUIRE(router);
  CHECK_FALSE(router->adopted);
  CHECK(router->info.port == *port);
  const auto proc = "/proc/" + std::to_string(router->info.pid);
  CHECK(std::filesystem::read_symlink(proc + "/exe") == std::filesystem::canonical(DRIFTGATE_ROUTER_PROCESS));
  const auto words = text_of(proc + "/cmdline");
  CHECK(words.starts_with(std::string(DRIFTGATE_ROUTER_PROCESS) + '\0' + "router" + '\0'));
  CHECK(words.find(options.router.control_path) != std::string::npos);
  ScriptedEngine engine(serve_completions("x"));
  RouterDriver driver(options.router.control_path);
  REQUIRE(driver.apply(route_to(engine.url(), "", 0)));
  CHECK(TestClient(router->info.port).post(tiny_request()).body == completion_of("x"));
  const auto second = spawn_router(options);
  REQUIRE(second);
  CHECK(second->adopted);
  CHECK(text_of(options.log_path).find("serving on port") != std::string::npos);
  CHECK(driver.shutdown());
}

TEST_CASE("the router runs the daemon's program, also when another one has its name") {
  Launched launched;
  auto& options = launched.options;
  const auto program = launched.folder.at("program");
  const Manager manager(options.launcher, program);
  const auto installed = [&] {
    std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, program + ".new");
    std::filesystem::rename(program + ".new", program);
  };
  installed();
  const UniqueFd before(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(before);
  // As a daemon sees its own program when an upgrade has replaced it.
  options.executable = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(before.get());
  installed();
  const auto router = spawn_router(options);
  REQUIRE(router);
  CHECK(std::filesystem::read_symlink("/proc/" + std::to_string(router->info.pid) + "/exe") ==
        program + " (deleted)");
  CHECK_FALSE(launched.logged);
  CHECK(RouterDriver(options.router.control_path).shutdown());
}

TEST_CASE("a launcher starts its own program alone, as a router") {
  Launched launched;
  const auto program = launched.folder.at("program");
  std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, program);
  const Manager manager(launched.options.launcher, program);
  const auto refused = [&](const std::string& executable, std::vector<std::string> words) {
    const auto made =
        launch_by(launched.options.launcher, {executable, std::move(words), "/dev/null"}, {}, soon());
    return made ? "started" : made.error().message;
  };
  CHECK(refused("/usr/bin/env", {"env", "router", "x"}).find("/usr/bin/env") != std::string::npos);
  // The same bytes under another name, and the name's earlier program when others could write it.
  CHECK(refused(DRIFTGATE_ROUTER_PROCESS, {"router", "router", "x"}).find("neither") != std::string::npos);
  const UniqueFd before(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  std::filesystem::copy_file(program, program + ".new");
  std::filesystem::rename(program + ".new", program);
  REQUIRE(::fchmod(before.get(), 0777) == 0);
  const auto replaced = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(before.get());
  CHECK(refused(replaced, {"router", "router", "x"}).find("neither") != std::string::npos);
  CHECK(refused(program, {"router", "serve", "x"}).find("not one") != std::string::npos);
  CHECK(refused(program, {"router", "router", "--launched"}).find("not one") != std::string::npos);
}

TEST_CASE("where the launcher starts no router the daemon does, and says so") {
  Launched launched;
  auto& options = launched.options;
  std::optional<Manager> manager;
  SUBCASE("nobody listens") {}
  SUBCASE("it ends the connection without an answer") {
    manager.emplace(options.launcher, "/bin/false");
  }
  SUBCASE("it refuses the program") {
    const auto other = launched.folder.at("program");
    std::filesystem::copy_file(DRIFTGATE_ROUTER_PROCESS, other);
    manager.emplace(options.launcher, other);
  }
  auto listeners = bind_listeners("127.0.0.1:0", 2);
  REQUIRE(listeners);
  const auto port = listening_port(listeners->front().get());
  options.listeners = std::move(*listeners);
  const auto router = spawn_router(options);
  REQUIRE(router);
  CHECK(router->info.port == *port);
  REQUIRE(launched.logged);
  CHECK(launched.logged->find("daemon's unit") != std::string::npos);
  CHECK(RouterDriver(options.router.control_path).shutdown());
}

TEST_CASE("where the router cannot start the reason is told") {
  Launched launched;
  auto& options = launched.options;
  const Manager manager(options.launcher);
  options.router.spool_dir = "/proc/nowhere";
  const auto refused = spawn_router(options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find(options.log_path) != std::string::npos);
  CHECK(text_of(options.log_path).find("/proc/nowhere") != std::string::npos);
  CHECK_FALSE(launched.logged);
}

TEST_CASE("what is no order starts nothing") {
  Launched launched;
  const Manager manager(launched.options.launcher);
  for (const std::string& bytes :
       {std::string("x"), std::string("p") + encode_frame("{}"), std::string("p\x7f\xff\xff\xff"),
        std::string("p") + encode_frame(R"({"words":["router"],"log":"/dev/null","listeners":0})"),
        std::string("p") + encode_frame(R"({"words":[1],"log":"/dev/null","listeners":4000000000})")}) {
    CHECK(reply_to(launched.options.launcher, bytes).find("\"ok\":false") != std::string::npos);
  }
}
