#include <doctest/doctest.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/net/server.hpp"
#include "raw_peer.hpp"

using namespace driftgate::net;

namespace {

std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n";
}

Response text(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

/// Requests to "/long…" and "/slow…" that run until they are let go or stopped.
class Held {
 public:
  Response answer(const Request& request) {
    if (!request.path.starts_with("/long") && !request.path.starts_with("/slow")) return text("at once");
    const std::stop_callback wake(request.stop, [this] {
      const std::lock_guard lock(mutex_);  // not between a look at what is waited for and the wait
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    ++running_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return let_go_ || request.stop.stop_requested(); });
    --running_;
    if (request.stop.stop_requested()) ++stopped_;
    changed_.notify_all();
    return text(request.stop.stop_requested() ? "stopped" : "done");
  }
  /// Returns once so many run at the same time.
  void wait_running(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == count; });
  }
  /// Returns once so many or more were stopped.
  void wait_stopped(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ >= count; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0, stopped_ = 0;
  bool let_go_ = false;
};

class Pieces : public BodySource {
 public:
  driftgate::schema::Result<std::string> next() override {
    return given_++ < 3 ? std::string("piece;") : std::string();
  }

 private:
  int given_ = 0;
};

}  // namespace

TEST_CASE("long work fills its own threads and queue, is then refused, and keeps nobody else waiting") {
  Held held;
  test::TestServer server([&](const Request& request) { return held.answer(request); },
                          {.worker_threads = 1, .long_threads = 2, .long_queue = 1});
  std::vector<Socket> clients;
  for (int i = 1; i <= 2; ++i) {
    clients.push_back(test::connect_and_send(server.port(), get("/long")));
    held.wait_running(i);
  }
  // One of the next two finds the only place in the queue taken by the other.
  clients.push_back(test::connect_and_send(server.port(), get("/long")));
  clients.push_back(test::connect_and_send(server.port(), get("/long")));
  const auto refused = [](const std::string& answer) { return answer.starts_with("HTTP/1.1 503 "); };
  std::future<std::string> third =
      std::async(std::launch::async, [&] { return test::read_until(clients[2], "\r\n\r\n"); });
  std::future<std::string> fourth =
      std::async(std::launch::async, [&] { return test::read_until(clients[3], "\r\n\r\n"); });
  CHECK(test::exchange(server.port(), get("/ordinary"), "at once").ends_with("at once"));
  CHECK(test::exchange(server.port(), get("/urgent"), "at once").ends_with("at once"));
  held.let_go();
  const std::string answers[] = {third.get(), fourth.get()};
  CHECK(refused(answers[0]) != refused(answers[1]));
  for (const auto& answer : answers)
    CHECK((!refused(answer) || answer.find("Retry-After: 1") != std::string::npos));
  for (int i = 0; i < 2; ++i)
    CHECK(test::read_until(clients[static_cast<std::size_t>(i)], "done").ends_with("done"));
}

TEST_CASE("an urgent request finds a thread while every worker is held") {
  Held held;
  test::TestServer server([&](const Request& request) { return held.answer(request); },
                          {.worker_threads = 2, .queue_limit = 1, .long_threads = 1});
  std::vector<Socket> clients;
  for (int i = 1; i <= 2; ++i) {
    clients.push_back(test::connect_and_send(server.port(), get("/slow")));
    held.wait_running(i);
  }
  clients.push_back(test::connect_and_send(server.port(), get("/slow")));  // waits in the queue
  CHECK(test::exchange(server.port(), get("/urgent"), "at once").ends_with("at once"));
  held.let_go();
  for (auto& client : clients) CHECK(test::read_until(client, "done").ends_with("done"));
}

TEST_CASE(
    "long work is stopped when its client goes away, and what waits behind it is not begun for nobody") {
  Held held;
  test::TestServer server([&](const Request& request) { return held.answer(request); }, {.long_threads = 1});
  {
    const Socket gone = test::connect_and_send(server.port(), get("/long"));
    held.wait_running(1);
  }
  held.wait_stopped(1);
  held.let_go();
  CHECK(test::exchange(server.port(), get("/long"), "done").ends_with("done"));
}

TEST_CASE("a client that has ended its side of the connection keeps its long answer") {
  for (const char* const version : {"HTTP/1.0", "HTTP/1.1"}) {
    CAPTURE(version);
    Held held;
    test::TestServer server([&](const Request& request) { return held.answer(request); },
                            {.long_threads = 2});
    Socket waiting = test::send_and_end(
        server.port(), "GET /long " + std::string(version) + "\r\nHost: a\r\nConnection: close\r\n\r\n");
    held.wait_running(1);
    const bool is_asked = std::string_view(version) == "HTTP/1.1";
    if (is_asked) CHECK(test::read_until(waiting, "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
    {
      const Socket gone = test::connect_and_send(server.port(), get("/long"));
      held.wait_running(2);
    }
    held.wait_stopped(1);  // the one that is gone, after further looks at both
    held.let_go();
    const auto answer = test::read_until(waiting);
    CHECK_MESSAGE(answer.starts_with("HTTP/1.1 200 "), answer);
    CHECK_MESSAGE(answer.ends_with("done"), answer);
  }
}

TEST_CASE("long work is stopped when the server stops") {
  Held held;
  test::TestServer server([&](const Request& request) { return held.answer(request); }, {.long_threads = 1});
  Socket client = test::connect_and_send(server.port(), get("/long"));
  held.wait_running(1);
  Socket waiting = test::connect_and_send(server.port(), get("/long"));
  server->stop(std::chrono::minutes(2));
  held.wait_stopped(1);
  CHECK(test::read_until(client, "stopped").ends_with("stopped"));
}

TEST_CASE("the pieces of a long answer are made though the queue of long work is full") {
  Held held;
  test::TestServer server(
      [&](const Request& request) {
        if (request.path != "/long/pieces") return held.answer(request);
        Response response;
        response.source = std::make_shared<Pieces>();
        return response;
      },
      {.long_threads = 2, .long_queue = 1});
  Socket running = test::connect_and_send(server.port(), get("/long"));
  held.wait_running(1);
  const auto answer = test::exchange(server.port(), get("/long/pieces"), "\r\n0\r\n\r\n");
  CHECK(answer.find("piece;") != std::string::npos);
  CHECK(answer.ends_with("0\r\n\r\n"));
  held.let_go();
  CHECK(test::read_until(running, "done").ends_with("done"));
}

TEST_CASE("a request that is not allowed is refused before it takes a place among long ones") {
  Held held;
  test::TestServer server([&](const Request& request) { return held.answer(request); },
                          {.long_threads = 1, .long_queue = 0},
                          [](RequestHead& head) -> std::optional<Response> {
                            if (head.path != "/long/forbidden") return std::nullopt;
                            return plain_problem(403, "forbidden", "no");
                          });
  CHECK(test::exchange(server.port(), get("/long/forbidden"), "\r\n\r\n").starts_with("HTTP/1.1 403 "));
}
