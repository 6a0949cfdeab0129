#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <future>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/net/server.hpp"
#include "raw_peer.hpp"

using namespace driftgate::net;

namespace {

const std::string kRequest = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

}  // namespace

TEST_CASE("a head above the limit is refused with 431, whether it ends or not") {
  test::TestServer server;
  const std::string padding(17 * 1024, 'x');
  CHECK(test::exchange(server.port(), "GET / HTTP/1.1\r\nHost: a\r\nX: " + padding)
            .starts_with("HTTP/1.1 431 "));
  CHECK(test::exchange(server.port(), "GET / HTTP/1.1\r\nHost: a\r\nX: " + padding + "\r\n\r\n")
            .starts_with("HTTP/1.1 431 "));
}

TEST_CASE("a body above the limit is refused with 413 and one at the limit is taken") {
  test::TestServer server(
      [](const Request& request) {
        Response response;
        response.body = std::to_string(request.body.size());
        return response;
      },
      {.max_body_bytes = 1000});
  const auto post = [&](std::size_t size) {
    return test::exchange(server.port(),
                          "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
                              std::to_string(size) + "\r\n\r\n" + std::string(size, 'x'));
  };
  CHECK(post(1001).starts_with("HTTP/1.1 413 "));
  CHECK(post(1000).ends_with("\r\n\r\n1000"));
}

TEST_CASE("a head that trickles in is cut at its absolute deadline and told so") {
  test::TestServer server({}, {.head_timeout = std::chrono::milliseconds(100)});
  CHECK(test::exchange(server.port(), "GET / HTTP/1.1\r\nHost: a\r\n").starts_with("HTTP/1.1 408 "));
}

TEST_CASE("a body that does not come is cut at its deadline") {
  test::TestServer server({}, {.body_timeout = std::chrono::milliseconds(100)});
  CHECK(test::exchange(server.port(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc")
            .starts_with("HTTP/1.1 408 "));
}

TEST_CASE("an idle connection is closed without a word") {
  test::TestServer server({}, {.idle_timeout = std::chrono::milliseconds(100)});
  CHECK(test::exchange(server.port(), "").empty());
}

TEST_CASE("bytes that can never become a request are refused at once, not at the deadline") {
  test::TestServer server;
  for (const char* bytes : {"\x16\x03\x01", "\r\n", "GET / HTTP/1.1\nHost: a\n\n", "get"}) {
    CAPTURE(bytes);
    CHECK(test::exchange(server.port(), bytes).starts_with("HTTP/1.1 400 "));
  }
}

TEST_CASE("at the cap of one address its oldest idle connection is closed and the new one is served") {
  test::TestServer server({}, {.max_connections_per_address = 2});
  std::vector<Socket> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(test::connect_and_send(server.port(), kRequest));
    CHECK(test::read_until(held.back(), "\r\n\r\n").starts_with("HTTP/1.1 200 "));
  }
  CHECK(test::exchange(server.port(), kRequest, "\r\n\r\n").starts_with("HTTP/1.1 200 "));
  CHECK(test::read_until(held.front()).empty());  // it ends without a word
  REQUIRE(held.back().write(kRequest, Deadline(std::chrono::seconds(120))));
  CHECK(test::read_until(held.back(), "\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("while all connections are at work a further one gets 503, and a freed place can be used again") {
  std::promise<void> leave;
  const auto left = leave.get_future().share();
  std::counting_semaphore<> entered(0);
  test::TestServer server(
      [&entered, left](const Request& request) {
        if (request.path != "/wait") return Response{};
        entered.release();
        left.wait();
        return Response{};
      },
      {.max_connections_per_address = 2});
  std::vector<Socket> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(test::connect_and_send(server.port(), "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"));
    entered.acquire();  // until its request is read, a connection may give way
  }
  const std::string refused = test::exchange(server.port(), "");
  CHECK(refused.starts_with("HTTP/1.1 503 "));
  CHECK(refused.find("Retry-After: 1") != std::string::npos);
  leave.set_value();
  held.clear();
  bool served = false;
  for (int attempt = 0; attempt < 1000 && !served; ++attempt)
    served = test::exchange(server.port(), kRequest, "\r\n\r\n").starts_with("HTTP/1.1 200 ");
  CHECK(served);
}

TEST_CASE("bodies that do not arrive share a bound: beyond it their client gets 503 with Retry-After") {
  test::TestServer server({}, {.max_body_bytes = 100'000, .body_memory_bytes = 250'000});
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n";
  std::vector<Socket> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(test::connect_and_send(server.port(), head + std::string(99'999, 'x')));
  }
  // Two of the three fit.
  std::size_t refused = held.size();
  std::array<char, 4'096> bytes{};
  for (std::size_t i = 0; refused == held.size(); i = (i + 1) % held.size()) {
    const auto got = held[i].read(bytes.data(), bytes.size(), Deadline(std::chrono::milliseconds(1)));
    if (got) refused = i;
  }
  CHECK(std::string_view(bytes.data()).starts_with("HTTP/1.1 503 "));
  CHECK(std::string_view(bytes.data()).find("Retry-After: 1") != std::string_view::npos);
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i == refused) continue;
    REQUIRE(held[i].write("x", Deadline(std::chrono::seconds(120))));
    CHECK(test::read_until(held[i]).starts_with("HTTP/1.1 200 "));
  }
}

TEST_CASE("a body that is announced and does not come takes no memory from others") {
  // the largest body always fits
  test::TestServer server({}, {.max_body_bytes = 100'000, .body_memory_bytes = 1});
  std::vector<Socket> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(test::connect_and_send(server.port(),
                                          "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"));
  }
  const std::string small = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
  CHECK(test::exchange(server.port(), small, "\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("a full queue answers 503 with Retry-After") {
  std::promise<void> entered;
  std::promise<void> leave;
  std::atomic<int> calls = 0;
  test::TestServer server(
      [&](const Request&) {
        if (calls++ == 0) {
          entered.set_value();
          leave.get_future().wait();
        }
        return Response{};
      },
      {.worker_threads = 1, .queue_limit = 1});
  const std::string request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  Socket running = test::connect_and_send(server.port(), request);
  entered.get_future().wait();
  // One of the next two finds the only place in the queue taken by the other.
  Socket second = test::connect_and_send(server.port(), request);
  Socket third = test::connect_and_send(server.port(), request);
  const std::string refused = test::read_until(third, "\r\n\r\n");
  CHECK(refused.starts_with("HTTP/1.1 503 "));
  CHECK(refused.find("Retry-After: 1") != std::string::npos);
  leave.set_value();
  CHECK(test::read_until(running, "\r\n\r\n").starts_with("HTTP/1.1 200 "));
  CHECK(test::read_until(second, "\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("Expect: 100-continue is answered once the head is accepted") {
  test::TestServer server([](const Request& request) {
    Response response;
    response.body = request.body;
    return response;
  });
  Socket socket = test::connect_and_send(
      server.port(), "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CHECK(test::read_until(socket, "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  REQUIRE(socket.write("hi", Deadline(std::chrono::seconds(10))));
  CHECK(test::read_until(socket, "hi").ends_with("\r\n\r\nhi"));
}
