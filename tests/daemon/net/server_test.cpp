#include "daemon/net/server.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <future>
#include <string>

#include "daemon/net/http_client.hpp"
#include "raw_peer.hpp"

using namespace driftgate::net;
using driftgate::net::test::FunctionHandler;

namespace {

Response text(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

HttpClient client_for(const test::TestServer& server, bool keep_alive = false) {
  ClientOptions options;
  options.keep_alive = keep_alive;
  return HttpClient(Url{"127.0.0.1", server.port(), "/"}, options);
}

/// Events 1 … `last`, then nothing; ends when told.
class CountingFeed : public EventFeed {
 public:
  std::atomic<int> last = 0;
  std::atomic<bool> ended = false;
  Batch next() override {
    Batch batch;
    while (sent_ < last && batch.events.size() < kMaxBatch) {
      ++sent_;
      batch.events.push_back({std::to_string(sent_), "count", "x"});
    }
    batch.ended = ended && sent_ == last;
    return batch;
  }

 private:
  int sent_ = 0;
};

/// No events, and at each look a wake for the next one.
class RestlessFeed : public EventFeed {
 public:
  std::function<void()> again;
  Batch next() override {
    again();
    return {};
  }
};

/// Passes over much before its one event, without being woken.
class SearchingFeed : public EventFeed {
 public:
  Batch next() override {
    Batch batch;
    batch.more = ++looks_ < 100;
    if (!batch.more) batch.events.push_back({"1", "found", "x"});
    batch.ended = !batch.more;
    return batch;
  }

 private:
  int looks_ = 0;
};

/// Pieces "0;", "1;", … and then the end, or a failure.
class CountingBody : public BodySource {
 public:
  CountingBody(int pieces, bool fails) : pieces_(pieces), fails_(fails) {}
  driftgate::schema::Result<std::string> next() override {
    if (given_ < pieces_) return std::to_string(given_++) + ";";
    if (fails_) return driftgate::schema::fail(driftgate::schema::ErrorCode::io, "the disk is gone");
    return std::string();
  }

 private:
  int pieces_;
  bool fails_;
  int given_ = 0;
};

class LaterAnswer : public Deferred {
 public:
  std::atomic<bool> ready = false;
  std::optional<Response> poll(bool last) override {
    if (ready) return text("ready");
    if (last) return text("not yet");
    return std::nullopt;
  }
  std::chrono::milliseconds wait_time{10'000};
  [[nodiscard]] std::chrono::milliseconds wait() const override { return wait_time; }
};

}  // namespace

TEST_CASE("a request is answered with its body, and the connection serves the next one") {
  test::TestServer server(
      [](const Request& request) { return text(request.method + " " + request.path + " " + request.body); });
  auto client = client_for(server, true);
  for (int i = 0; i < 3; ++i) {
    const auto response =
        client.send({.method = "POST", .target = "/a", .headers = {}, .body = "b" + std::to_string(i)});
    REQUIRE(response);
    CHECK(response->status == 200);
    CHECK(response->body == "POST /a b" + std::to_string(i));
  }
}

TEST_CASE("a body that is made as it is sent arrives whole, and the connection serves the next request") {
  test::TestServer server([](const Request& request) {
    Response response;
    response.source = std::make_shared<CountingBody>(request.path == "/none" ? 0 : 1'000, false);
    return response;
  });
  auto client = client_for(server, true);
  std::string expected;
  for (int i = 0; i < 1'000; ++i) expected += std::to_string(i) + ";";
  for (int i = 0; i < 2; ++i) {
    std::string body;
    const auto response = client.stream({.target = "/all"}, [&](std::string_view bytes) {
      body += bytes;
      return true;
    });
    REQUIRE(response);
    CHECK(body == expected);
  }
  CHECK(client.send({.target = "/none"})->body.empty());
}

TEST_CASE("a body that cannot be made to its end is cut off, which the client sees") {
  test::TestServer server([](const Request&) {
    Response response;
    response.source = std::make_shared<CountingBody>(3, true);
    return response;
  });
  auto client = client_for(server);
  std::string body;
  const auto response = client.stream({.target = "/"}, [&](std::string_view bytes) {
    body += bytes;
    return true;
  });
  CHECK(body == "0;1;2;");
  CHECK_FALSE(response.has_value());
}

TEST_CASE("requests sent in one piece are answered in order") {
  test::TestServer server([](const Request& request) { return text(request.path + ";"); });
  const std::string answers = test::exchange(
      server.port(),
      "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
      "GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const auto first = answers.find("/1;");
  const auto second = answers.find("/2;");
  const auto third = answers.find("/3;");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third != std::string::npos);
}

TEST_CASE("a smuggled second request is never seen by the handler") {
  std::atomic<int> calls = 0;
  test::TestServer server([&](const Request&) {
    ++calls;
    return text("");
  });
  const std::string inner = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
  const std::string answers = test::exchange(
      server.port(),
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
          inner);
  CHECK(answers.starts_with("HTTP/1.1 400 "));
  CHECK(answers.find("\"code\":\"bad_request\"") != std::string::npos);
  CHECK(answers.find("HTTP/1.1", 5) == std::string::npos);
  CHECK(calls == 0);
}

TEST_CASE("a refusal before the body answers without reading it") {
  std::atomic<int> calls = 0;
  test::TestServer server(
      [&](const Request&) {
        ++calls;
        return text("");
      },
      {}, [](RequestHead&) { return plain_problem(401, "unauthenticated", "no token"); });
  const std::string answer =
      test::exchange(server.port(), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", "no token");
  CHECK(answer.starts_with("HTTP/1.1 401 "));
  CHECK(answer.find("Connection: close") != std::string::npos);
  CHECK(calls == 0);
}

TEST_CASE("an exception in the handler is a 500 and a log line, and the server lives on") {
  std::promise<std::string> logged;
  test::TestServer server(
      [](const Request& request) {
        if (request.path == "/bad") throw std::runtime_error("secret detail");
        return text("good");
      },
      {.log = [&](std::string_view line) { logged.set_value(std::string(line)); }});
  auto client = client_for(server, true);
  const auto bad = client.send({.method = "GET", .target = "/bad"});
  REQUIRE(bad);
  CHECK(bad->status == 500);
  CHECK(bad->body.find("secret") == std::string::npos);
  CHECK(logged.get_future().get().find("secret detail") != std::string::npos);
  CHECK(client.send({})->body == "good");
}

TEST_CASE("an event stream delivers what is new after each wake-up and ends when its feed does") {
  auto feed = std::make_shared<CountingFeed>();
  feed->last = 100;  // more than a batch
  test::TestServer server([&](const Request&) {
    Response response;
    response.headers.push_back({"Content-Type", "text/event-stream"});
    response.feed = feed;
    return response;
  });
  SseParser parser;
  int seen = 0;
  const auto response = client_for(server).stream({}, [&](std::string_view bytes) {
    const auto fed = parser.feed(bytes, [&](const SseEvent& event) {
      ++seen;
      CHECK(event.id == std::to_string(seen));
      if (seen == 100) {
        feed->last = 103;
        server->wake_streams();
      }
      if (seen == 103) {
        feed->ended = true;
        server->wake_streams();
      }
      return true;
    });
    return fed.has_value();
  });
  REQUIRE(response);
  CHECK(seen == 103);
}

namespace {

/// A server that answers with one stream and sends heartbeats often.
template <typename Feed>
struct HeartbeatServer {
  std::shared_ptr<Feed> feed = std::make_shared<Feed>();
  test::TestServer server{[this](const Request&) {
                            Response response;
                            response.feed = feed;
                            return response;
                          },
                          {.heartbeat = std::chrono::milliseconds(20)}};

  /// Reads until `wanted` has come; it must.
  void check_sends(const std::string& wanted) {
    const auto bytes = test::exchange(server.port(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", wanted);
    CHECK(bytes.find(wanted) != std::string::npos);
  }
};

}  // namespace

TEST_CASE("a silent event stream carries heartbeats") {
  HeartbeatServer<CountingFeed>().check_sends(": heartbeat\n\n");
}

TEST_CASE("wakes that bring a stream nothing do not take its heartbeats away") {
  HeartbeatServer<RestlessFeed> restless;
  restless.feed->again = [&restless] { restless.server->wake_streams(); };
  restless.check_sends(": heartbeat\n\n: heartbeat\n\n");
}

TEST_CASE("a stream whose source has more is pulled again without a wake-up") {
  test::TestServer server(
      [](const Request&) {
        Response response;
        response.feed = std::make_shared<SearchingFeed>();
        return response;
      },
      {.heartbeat = std::chrono::hours(1)});
  const std::string bytes =
      test::exchange(server.port(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "event: found");
  CHECK(bytes.find("event: found") != std::string::npos);
}

TEST_CASE("a deferred answer waits for a wake-up without holding a worker") {
  auto later = std::make_shared<LaterAnswer>();
  test::TestServer server(
      [&](const Request& request) {
        if (request.path != "/later") return text("at once");
        Response response;
        response.deferred = later;
        return response;
      },
      {.worker_threads = 1});
  auto waiting = std::async(std::launch::async,
                            [&] { return client_for(server).send({.method = "GET", .target = "/later"}); });
  CHECK(client_for(server).send({})->body == "at once");
  later->ready = true;
  server->wake_streams();
  // The wake-up may come before the request: the bounded wait then ends it.
  const auto answer = waiting.get();
  REQUIRE(answer);
  CHECK(answer->body == "ready");
}

TEST_CASE("a deferred answer is polled a last time when its wait is over") {
  auto later = std::make_shared<LaterAnswer>();
  later->wait_time = std::chrono::milliseconds(20);
  test::TestServer server([&](const Request&) {
    Response response;
    response.deferred = later;
    return response;
  });
  CHECK(client_for(server).send({})->body == "not yet");
}

TEST_CASE("stopping lets a request in flight finish and ends streams") {
  std::promise<void> entered;
  std::promise<void> leave;
  test::TestServer server([&](const Request&) {
    entered.set_value();
    leave.get_future().wait();
    return text("finished");
  });
  auto answer = std::async(std::launch::async, [&] { return client_for(server).send({}); });
  entered.get_future().wait();
  auto stopped = std::async(std::launch::async, [&] { server->stop(std::chrono::seconds(10)); });
  leave.set_value();
  stopped.get();
  const auto response = answer.get();
  REQUIRE(response);
  CHECK(response->body == "finished");
}

TEST_CASE("an address that is taken is an error that names it") {
  FunctionHandler handler;
  auto first = Server::start({}, handler);
  REQUIRE(first);
  ServerOptions options;
  options.port = (*first)->port();
  const auto second = Server::start(options, handler);
  REQUIRE_FALSE(second);
  CHECK(second.error().message.find(std::to_string(options.port)) != std::string::npos);
}

TEST_CASE("an answer to HEAD has the head of the answer and no body, so that the connection goes on") {
  test::TestServer server(
      [](const Request& request) {
        Response response = text("twelve bytes");
        if (request.path == "/made") response.source = std::make_shared<CountingBody>(3, false);
        return response;
      },
      {},
      [](RequestHead& head) -> std::optional<Response> {
        if (head.path == "/refused") return plain_problem(403, "forbidden", "Not here.");
        return std::nullopt;
      });
  auto socket = driftgate::net::test::connect_and_send(server.port(), "");
  for (const std::string path : {"/", "/refused", "/made"}) {
    CAPTURE(path);
    REQUIRE(socket.write("HEAD " + path + " HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n",
                         Deadline(std::chrono::seconds(120))));
    const auto both = driftgate::net::test::read_until(socket, "twelve bytes");
    const auto end = both.find("\r\n\r\n");
    REQUIRE(end != std::string::npos);
    CHECK(both.substr(end + 4).starts_with("HTTP/1.1 200 OK\r\n"));  // the next answer, and nothing before it
    if (path == "/") CHECK(both.find("Content-Length: 12\r\n") < end);
  }
}

TEST_CASE("a 304 has no length and no body, and the connection serves the next request") {
  test::TestServer server([](const Request& request) {
    Response response = text(request.path == "/next" ? "twelve bytes" : "");
    if (request.path != "/next") response.status = 304;
    return response;
  });
  const auto both = driftgate::net::test::exchange(
      server.port(), "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n", "twelve bytes");
  CHECK(both.starts_with("HTTP/1.1 304 Not Modified\r\n"));
  const auto end = both.find("\r\n\r\n");
  REQUIRE(end != std::string::npos);
  CHECK(both.substr(0, end).find("Content-Length") == std::string::npos);
  CHECK(both.substr(end + 4).starts_with("HTTP/1.1 200 OK\r\n"));
}
