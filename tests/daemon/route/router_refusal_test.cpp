#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "tests/daemon/route/test_router.hpp"

using namespace driftgate::route;

namespace {

struct Bench {
  ScriptedEngine engine{serve_completions("x")};
  TestRouter router;
  Bench() { router.apply(route_to(engine.url())); }
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
        std::string("X: a\nTransfer-Encoding: chunked\r\n"), std::string("Transfer_Encoding: chunked\r\n"),
        std::string("Content_Length: 4\r\n"), std::string("Host_: b\r\n"),
        std::string("Driftgate_Key: b\r\n")}) {
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
  const std::string tiny = tiny_request();
  for (const std::string& body :
       {std::string(), std::string("x"), std::string("[]"), std::string("{}"),
        std::string(R"({"model":"tiny","model":"other"})"), tiny + std::string(1, '\0'),
        tiny + std::string("\0{}", 3), std::string(1, '\0') + tiny, "\xef\xbb\xbf" + tiny, tiny + "x", tiny + tiny,
        std::string("{\"model\":\"tiny\0\"}", 17)}) {
    const auto answer = client.post(body);
    CHECK(answer.status == 400);
    CHECK(nlohmann::json::parse(answer.body)["error"]["type"] == "invalid_request_error");
  }
  CHECK(client.post(tiny_request(), "driftgate-slice: x\r\n").status == 400);
  CHECK(client.post(tiny_request()).status == 200);
  CHECK(bench.engine.requests() == 1);
}

TEST_CASE("at the cap the oldest idle connection is closed and the new one is served") {
  TestRouter router([](RouterOptions& options) { options.max_connections_per_address = 2; });
  TestClient one(router.port());
  TestClient two(router.port());
  CHECK(one.get("/health").status == 200);
  CHECK(two.get("/health").status == 200);
  TestClient three(router.port());
  CHECK(three.get("/health").status == 200);
  CHECK(one.closed());
  CHECK(two.get("/health").status == 200);
}

TEST_CASE("the caps count over all threads of the router") {
  TestRouter router([](RouterOptions& options) {
    options.max_connections = 4;
    options.threads = 4;
  });
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<TestClient>(router.port()));
    CHECK(clients.back()->get("/health").status == 200);
  }
  const auto served = [&clients] {
    return std::ranges::count_if(clients, [](auto& client) { return client->get("/health").status == 200; });
  };
  // One that was told to give way may still answer a request that crossed the message.
  CHECK(served() >= 4);
  CHECK(served() == 4);
}

TEST_CASE("a request that is worked on never gives way: beyond the cap others are turned away") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) { visit.wait_for_close(); });
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) { options.max_connections = 2; });
  TestClient one(router.port());
  TestClient two(router.port());
  one.send(post_text(tiny_request()));
  two.send(post_text(tiny_request()));
  // Both are being answered once the engine has them; what waits gives way until then.
  while (engine.requests() < 2) std::this_thread::yield();
  TestClient three(router.port());
  const auto refused = three.read_answer();
  CHECK(refused.status == 503);
  CHECK(refused.head.find("Retry-After: 1") != std::string::npos);
  one.leave();
  for (int tries = 0; tries < 10'000; ++tries) {
    TestClient again(router.port());
    if (again.get("/health").status == 200) return;
  }
  FAIL("no room again after a client left");
}

TEST_CASE("bodies that do not arrive share a bound: beyond it their client gets 503 with Retry-After") {
  ScriptedEngine engine(serve_completions("x"));
  TestRouter router(route_to(engine.url()), [](RouterOptions& options) {
    options.max_body_bytes = 100'000;
    options.body_memory_bytes = 150'000;
  });
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& start :
       {head + "Content-Length: 100000\r\n\r\n" + std::string(99'000, ' '),
        head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(std::string(99'000, ' '))}) {
    TestClient first(router.port());
    TestClient second(router.port());
    first.send(start);
    second.send(start);
    // The two together do not fit.
    const bool first_refused = first.reads_before(second);
    TestClient& refused = first_refused ? first : second;
    const auto answer = refused.read_answer();
    CHECK(answer.status == 503);
    CHECK(answer.head.find("Retry-After: 1") != std::string::npos);
  }
}

TEST_CASE("answers to HEAD have no body, so that the connection goes on") {
  Bench bench;
  TestClient client(bench.router.port());
  for (const auto& [path, status] : {std::pair{"/health", "200"}, std::pair{"/v1/models", "200"},
                                     std::pair{"/v1/completions", "405"}, std::pair{"/nowhere", "404"}}) {
    CAPTURE(path);
    client.send("HEAD " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    const auto head = client.read_head();
    CHECK(head.starts_with("HTTP/1.1 " + std::string(status)));
    CHECK(head.find("Content-Length: ") != std::string::npos);
    CHECK(client.get("/health").body == R"({"status":"ok"})");
  }
}

TEST_CASE("a router whose engine leads back to it answers 508 at the second pass, whatever stands between") {
  TestRouter first;
  TestRouter second;
  const auto url = [](const TestRouter& router) { return "http://localhost:" + std::to_string(router.port()); };
  first.apply(route_to(url(first)));
  TestClient own(first.port());
  CHECK(own.post(tiny_request()).status == 508);
  first.apply(route_to(url(second)));
  second.apply(route_to(url(first)));
  TestClient client(first.port());
  const auto answer = client.post(tiny_request());
  CHECK(answer.status == 508);
  CHECK(nlohmann::json::parse(answer.body)["error"]["code"] == "loop");
  CHECK(first.observations(2).size() == 2);  // one for each request of a user, none for the second pass
  CHECK(client.get("/health").status == 200);
}
