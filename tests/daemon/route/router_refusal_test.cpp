#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

struct Bench {
  ScriptedEngine engine{serve_completions("x")};
  TestRouter router;
  Bench() { router.apply(route_to(engine.url(), "", 0)); }
};

}  // namespace

TEST_CASE("smuggling forms are refused with 400, the connection is closed and no engine sees anything") {
  Bench bench;
  const std::string inner = "POST /v1/completions HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n";
  for (const std::string& fields :
       {std::string("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
        std::string("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"),
        std::string("Content-Length: 4\r\nContent-Length: 4\r\n"), std::string("Content-Length: 4, 5\r\n"),
        std::string("Transfer-Encoding: identity\r\n"), std::string("Transfer-Encoding : chunked\r\n"),
        std::string("X: a\r\n Transfer-Encoding: chunked\r\n"), std::string("Host: other\r\n"),
        std::string("X: a\nTransfer-Encoding: chunked\r\n")}) {
    CAPTURE(fields);
    TestClient client(bench.router.port());
    client.send("POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n0\r\n\r\n" + inner);
    const auto answer = client.read_answer();
    CHECK(answer.status == 400);
    CHECK(nlohmann::json::parse(answer.body)["error"]["code"] == "bad_request");
    CHECK(client.closed());
  }
  CHECK(bench.engine.requests() == 0);
}

TEST_CASE("heads and bodies over their limits are refused") {
  Bench bench;
  {
    TestClient client(bench.router.port());
    client.send("GET /health HTTP/1.1\r\nHost: a\r\nX: " + std::string(20'000, 'x'));
    CHECK(client.read_answer().status == 431);
  }
  {
    TestClient client(bench.router.port());
    client.send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n");
    CHECK(client.read_answer().status == 413);
    CHECK(client.closed());
  }
  {
    TestClient client(bench.router.port());
    client.send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; ++i) client.send(chunk(std::string(65'536, 'x')));
    CHECK(client.read_answer().status == 413);
  }
  CHECK(bench.engine.requests() == 0);
}

TEST_CASE("bodies that are no completion request are refused and the connection goes on") {
  Bench bench;
  TestClient client(bench.router.port());
  for (const char* body : {"", "x", "[]", "{}", R"({"model":"tiny","model":"other"})"}) {
    const auto answer = client.post(body);
    CHECK(answer.status == 400);
    CHECK(nlohmann::json::parse(answer.body)["error"]["type"] == "invalid_request_error");
  }
  CHECK(client.post(tiny_request(), "driftgate-slice: x\r\n").status == 400);
  CHECK(client.post(tiny_request()).status == 200);
  CHECK(bench.engine.requests() == 1);
}

TEST_CASE("connections over the cap are turned away") {
  TestRouter router([](RouterOptions& options) { options.max_connections = 2; });
  TestClient one(router.port());
  TestClient two(router.port());
  CHECK(one.get("/health").status == 200);
  CHECK(two.get("/health").status == 200);
  TestClient three(router.port());
  CHECK(three.read_answer().status == 503);
  one.leave();
  for (int tries = 0; tries < 10'000; ++tries) {
    TestClient again(router.port());
    if (again.get("/health").status == 200) return;
  }
  FAIL("no room again after a client left");
}
