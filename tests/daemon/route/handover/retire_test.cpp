#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/route/control/control_place.hpp"
#include "daemon/route/control/unix_socket.hpp"
#include "daemon/route/worker/listeners.hpp"
#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;
using driftgate::schema::ErrorCode;

namespace {

/// A router in this process, and another one on its sockets for which it steps aside.
class Pair {
 public:
  /// With `served` the first one has answered a request, and so has a window, before it steps aside.
  explicit Pair(const ModelRoute& route, bool served = false) : first(route) {
    if (served) REQUIRE(TestClient(first.port()).post(tiny_request()).status == 200);
    const auto& options = first.options();
    auto sockets =
        ask_for_listeners(options.control_path, std::chrono::steady_clock::now() + std::chrono::seconds(120));
    REQUIRE(sockets);
    const auto moved = RouterDriver(options.control_path).retire();
    REQUIRE(moved);
    aside = *moved;
    auto started = Router::start(options, std::move(*sockets));
    REQUIRE(started);
    second = std::move(*started);
  }
  [[nodiscard]] std::string control() const { return first.options().control_path; }

  TestRouter first;
  std::string aside;  ///< the control socket of the first one
  std::unique_ptr<Router> second;
};

/// Reads and acknowledges, as the daemon does, until `wanted` observations came; by the router that had them.
std::map<std::string, std::size_t> read_observations(RouterDriver& driver, std::size_t wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  std::map<std::string, std::size_t> found;
  for (std::size_t count = 0; count < wanted;) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    const auto windows = driver.windows({}, 100);
    REQUIRE(windows);
    for (const auto& window : *windows) {
      found[window.router_id] += window.observations.size();
      count += window.observations.size();
      REQUIRE(driver.acknowledge({window.router_id, window.number}));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the control socket only answers
  }
  return found;
}

}  // namespace

TEST_CASE("a router that steps aside is reached beside its path, and the next one on it") {
  ScriptedEngine engine(serve_completions("x"));
  Pair pair(route_to(engine.url()));
  CHECK(pair.aside != pair.control());
  CHECK(sockets_aside(pair.control()) == std::vector<std::string>{pair.aside});
  CHECK(process_of_socket(pair.aside) == ::getpid());
  const auto old = RouterDriver(pair.aside).info();
  const auto next = RouterDriver(pair.control()).info();
  REQUIRE(old);
  REQUIRE(next);
  CHECK(old->retiring);
  CHECK_FALSE(next->retiring);
  CHECK(old->router_id != next->router_id);
  CHECK(old->port == next->port);
  CHECK(RouterDriver(pair.aside).retire().error().code == ErrorCode::conflict);
  pair.first.end();
  CHECK(sockets_aside(pair.control()).empty());
  TestClient client(next->port);
  CHECK(client.post(tiny_request()).body == completion_of("x"));  // by the routes of the file
}

TEST_CASE(
    "while both serve, a route is in force only where both hold it, and an old epoch is refused by both") {
  ScriptedEngine engine(serve_completions("x"));
  const auto base = route_to(engine.url(), engine.url(), 5'000);
  Pair pair(base);
  RouterDriver driver(pair.control());
  // The next one began without the candidate, the one before still exposes it.
  CHECK(driver.observe()->front().reverted);
  CHECK(driver.observe()->front().route.candidate_bp == 0);
  auto route = base;
  route.epoch = 2;
  REQUIRE(driver.apply(route));
  CHECK(RouterDriver(pair.aside).observe()->front().route == route);
  CHECK(driver.observe()->front().route == route);
  CHECK_FALSE(driver.observe()->front().reverted);
  CHECK(driver.apply(base).error().code == ErrorCode::conflict);
  CHECK(RouterDriver(pair.aside).apply(base).error().code == ErrorCode::conflict);
  // A share that one of them alone has given up is not in force.
  route.revision = 2;
  route.candidate_bp = 0;
  REQUIRE(RouterDriver(pair.aside).apply(route));
  CHECK(driver.observe()->front().reverted);
  CHECK(driver.observe()->front().route.candidate_bp == 0);
}

TEST_CASE("windows of a router that stepped aside do not come again while they cannot be acknowledged") {
  ScriptedEngine engine(serve_completions("x"));
  Pair pair(route_to(engine.url()), true);
  const auto old_id = RouterDriver(pair.aside).info()->router_id;
  RouterDriver driver(pair.control());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  WindowPosition last;
  std::map<std::string, std::vector<std::uint64_t>> seen;
  const auto read = [&] {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    const auto windows = driver.windows(last, 1'000);
    REQUIRE(windows);
    for (const auto& window : *windows) {
      seen[window.router_id].push_back(window.number);
      last = {window.router_id, window.number};
    }
  };
  while (seen.size() < 2) read();
  for (const auto own = seen.size() - 1 + seen[last.router_id].size();
       seen[last.router_id].size() <= own + 3;)
    read();
  for (const auto& [router, numbers] : seen) {
    CAPTURE(router);
    CHECK(std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end());
  }
  CHECK(seen.contains(old_id));
}

TEST_CASE("an acknowledgement that a router which stepped aside did not take is an error") {
  ScriptedEngine engine(serve_completions("x"));
  TestRouter router(route_to(engine.url()));
  CHECK(router.driver().acknowledge({"past", 1}));
  // Of a process that lives, and nobody answers on it.
  std::ofstream(router.options().control_path + ".old." + std::to_string(::getpid())) << "";
  CHECK_FALSE(router.driver().acknowledge({"past", 1}));
}

TEST_CASE(
    "a router that retires answers what it has, waits until its telemetry was read, and loses no idle "
    "client") {
  std::mutex gate;
  gate.lock();
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    if (visit.request().find("hold") != std::string::npos) {
      gate.lock();
      gate.unlock();
    }
    visit.send(answer_with(200, completion_of("x")));
  });
  const auto route = route_to(engine.url());
  TestRouter first(route, [](RouterOptions& options) { options.retire_ms = 120'000; });
  TestClient idle(first.port());
  CHECK(idle.post(tiny_request()).status == 200);
  TestClient busy(first.port());
  busy.send(post_text(tiny_request(false, R"(,"suffix":"hold")")));
  while (engine.requests() < 2) std::this_thread::yield();
  const auto control = first.options().control_path;
  const auto first_id = RouterDriver(control).info()->router_id;
  auto sockets = ask_for_listeners(control, std::chrono::steady_clock::now() + std::chrono::seconds(120));
  REQUIRE(sockets);
  REQUIRE(RouterDriver(control).retire());
  auto second = Router::start(first.options(), std::move(*sockets));
  REQUIRE(second);
  bool drained = false;
  std::thread draining([&] { drained = first.router().drain(); });
  TestClient fresh((*second)->port());
  CHECK(fresh.post(tiny_request()).status == 200);
  const auto last =
      idle.post(tiny_request());  // what an idle client sends is answered, and then it is told to go
  CHECK(last.body == completion_of("x"));
  gate.unlock();
  CHECK(busy.read_answer().body == completion_of("x"));
  RouterDriver driver(control);
  const auto seen = read_observations(driver, 4);
  draining.join();
  CHECK(drained);
  CHECK(seen.at(first_id) >= 3);
}

TEST_CASE("a router that stepped aside for nobody takes its place again") {
  ScriptedEngine engine(serve_completions("x"));
  TestRouter router(route_to(engine.url()));
  const auto control = router.options().control_path;
  const auto aside = RouterDriver(control).retire();
  REQUIRE(aside);
  CHECK(RouterDriver(control).info().error().code == ErrorCode::unavailable);
  REQUIRE(RouterDriver(*aside).resume());
  CHECK(sockets_aside(control).empty());
  const auto back = RouterDriver(control).info();
  REQUIRE(back);
  CHECK_FALSE(back->retiring);
  CHECK(RouterDriver(control).heartbeat());
}

TEST_CASE("a router whose place is taken does not take it again") {
  ScriptedEngine engine(serve_completions("x"));
  Pair pair(route_to(engine.url()));
  CHECK(RouterDriver(pair.aside).resume().error().code == ErrorCode::conflict);
  CHECK(RouterDriver(pair.aside).info()->retiring);
}

TEST_CASE("the socket of a router that is gone stands in nobody's way") {
  ScriptedEngine engine(serve_completions("x"));
  TestRouter router(route_to(engine.url()));
  const auto control = router.options().control_path;
  {
    const auto dead = listen_unix(control + ".old.2147483647");  // no process has this number
    REQUIRE(dead);
  }
  RouterDriver driver(control);
  CHECK(driver.apply(route_to(engine.url())));
  CHECK(driver.observe());
  CHECK(driver.windows({}, 1));
}
