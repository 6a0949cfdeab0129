#include <doctest/doctest.h>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/route/control/spawn.hpp"
#include "daemon/route/worker/listeners.hpp"
#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

struct Spawned {
  TemporaryFolder folder;
  SpawnOptions options;

  Spawned() {
    options.router.control_path = folder.at("control");
    options.router.spool_dir = folder.at("spool");
    options.router.state_path = folder.at("state");
    options.router.port_file = folder.at("port");
    options.router.window_ms = 20;
    options.log_path = folder.at("log");
    options.deadline = std::chrono::seconds(120);
    options.executable = DRIFTGATE_ROUTER_PROCESS;
  }
  ~Spawned() { RouterDriver(options.router.control_path).shutdown(); }
};

bool gone_in_time(int pid) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (::kill(pid, 0) == 0) {
    // Where nobody reaps orphans the process stays as a zombie: it has ended all the same.
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
    if (text.find(") Z ") != std::string::npos) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

TEST_CASE("a router is started once, then adopted, and serves on its own") {
  Spawned spawned;
  const auto first = spawn_router(spawned.options);
  REQUIRE(first);
  CHECK_FALSE(first->adopted);
  CHECK(::getsid(first->info.pid) != ::getsid(0));
  const auto second = spawn_router(spawned.options);
  REQUIRE(second);
  CHECK(second->adopted);
  CHECK(second->info.pid == first->info.pid);
  CHECK(second->info.router_id == first->info.router_id);
  std::ifstream port_file(spawned.options.router.port_file);
  int port = 0;
  port_file >> port;
  CHECK(port == first->info.port);
  ScriptedEngine engine(serve_completions("x"));
  RouterDriver driver(spawned.options.router.control_path);
  REQUIRE(driver.apply(route_to(engine.url(), "", 0)));
  TestClient client(first->info.port);
  CHECK(client.post(tiny_request()).body == completion_of("x"));
  REQUIRE(driver.shutdown());
  CHECK(gone_in_time(first->info.pid));
}

TEST_CASE("two routers never share a control socket") {
  Spawned spawned;
  REQUIRE(spawn_router(spawned.options));
  const auto second = Router::start(spawned.options.router);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == driftgate::schema::ErrorCode::conflict);
  CHECK(RouterDriver(spawned.options.router.control_path).heartbeat());
}

TEST_CASE("a killed router is replaced by one that knows the last route and hides the candidate") {
  Spawned spawned;
  const auto first = spawn_router(spawned.options);
  REQUIRE(first);
  RouterDriver driver(spawned.options.router.control_path);
  REQUIRE(driver.apply(route_to("http://127.0.0.1:9", "http://127.0.0.1:9", 5'000)));
  ::kill(first->info.pid, SIGKILL);
  REQUIRE(gone_in_time(first->info.pid));
  const auto second = spawn_router(spawned.options);
  REQUIRE(second);
  CHECK_FALSE(second->adopted);
  const auto observed = driver.observe();
  REQUIRE(observed);
  REQUIRE(observed->size() == 1);
  CHECK(observed->front().reverted);
  CHECK(observed->front().route.candidate_bp == 0);
  ::kill(second->info.pid, SIGTERM);
  CHECK(gone_in_time(second->info.pid));
  CHECK_FALSE(std::filesystem::exists(spawned.options.router.control_path));
}

TEST_CASE("a router that is handed listening sockets serves on them, with a thread for each") {
  Spawned spawned;
  auto sockets = bind_listeners("127.0.0.1:0", 3);
  REQUIRE(sockets);
  const auto port = listening_port(sockets->front().get()).value_or(0);
  spawned.options.listeners = std::move(*sockets);
  spawned.options.router.listen = "256.0.0.1:1";  // not looked at
  const auto router = spawn_router(spawned.options);
  REQUIRE(router);
  CHECK(router->info.port == port);
  const auto view = PageView::of_process(router->info.pid);
  REQUIRE(view);
  CHECK(view->workers().size() == 3);
  CHECK(view->read().router_id == router->info.router_id);
  TestClient client(port);
  CHECK(client.get("/health").status == 200);
}

TEST_CASE("a router that was told to end is not adopted: the next one starts when it is gone") {
  Spawned spawned;
  const auto first = spawn_router(spawned.options);
  REQUIRE(first);
  ScriptedEngine engine(serve_completions("x"));
  RouterDriver driver(spawned.options.router.control_path);
  REQUIRE(driver.apply(route_to(engine.url(), "", 0)));
  TestClient idle(first->info.port);  // keeps a connection, so that the router has something to drain
  CHECK(idle.post(tiny_request()).body == completion_of("x"));
  REQUIRE(driver.shutdown());
  const auto second = spawn_router(spawned.options);
  REQUIRE(second);
  CHECK_FALSE(second->adopted);
  CHECK(second->info.router_id != first->info.router_id);
  CHECK_FALSE(second->info.draining);
  CHECK(gone_in_time(first->info.pid));
}

TEST_CASE("a router that cannot start is told with the place of its log, as soon as it has ended") {
  Spawned spawned;
  spawned.options.router.listen = "256.0.0.1:1";
  const auto failed = spawn_router(spawned.options);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message.find(spawned.options.log_path) != std::string::npos);
}
