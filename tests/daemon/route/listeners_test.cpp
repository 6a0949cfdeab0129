#include "daemon/route/worker/listeners.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(120); };

}  // namespace

TEST_CASE("several sockets share the port that the first one got") {
  const auto listeners = bind_listeners("127.0.0.1:0", 3);
  REQUIRE(listeners);
  REQUIRE(listeners->size() == 3);
  const auto port = listening_port(listeners->front().get());
  REQUIRE(port);
  CHECK(*port != 0);
  for (const auto& listener : *listeners) CHECK(listening_port(listener.get()).value_or(0) == *port);
  CHECK(serves(*listeners, "127.0.0.1:0"));
  CHECK(serves(*listeners, "127.0.0.1:" + std::to_string(*port)));
  CHECK_FALSE(serves(*listeners, "127.0.0.1:" + std::to_string(*port == 65'535 ? 1 : *port + 1)));
  CHECK_FALSE(serves(*listeners, "0.0.0.0:0"));
  CHECK_FALSE(serves({}, "127.0.0.1:0"));
}

TEST_CASE("an address in use and one that is none are refused by name") {
  const auto held = bind_listeners("127.0.0.1:0", 1);
  REQUIRE(held);
  const auto at = "127.0.0.1:" + std::to_string(listening_port(held->front().get()).value_or(0));
  const auto taken = bind_listeners(at, 1);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().message.find(at) != std::string::npos);
  CHECK(bind_listeners("256.0.0.1:1", 1).error().code == driftgate::schema::ErrorCode::invalid_argument);
  CHECK_FALSE(listening_port(0));
}

TEST_CASE("a router shares its listening socket, and connections wait in it while no router lives") {
  ScriptedEngine engine(serve_completions("x"));
  TestRouter router(route_to(engine.url()));
  const auto shared = ask_for_listeners(router.options().control_path, soon());
  REQUIRE(shared);
  REQUIRE(shared->size() == 1);
  const auto port = router.port();
  CHECK(listening_port(shared->front().get()).value_or(0) == port);
  router.end();
  TestClient early(port);  // refused, were the socket not held
  early.send(post_text(tiny_request()));
  router.start_on(*shared);
  CHECK(router.port() == port);
  CHECK(early.read_answer().body == completion_of("x"));
}

TEST_CASE("a router that drains shares its socket no more") {
  TestRouter router;
  REQUIRE(router.router().drain());
  const auto refused = ask_for_listeners(router.options().control_path, soon());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == driftgate::schema::ErrorCode::conflict);
}
