#include "daemon/net/http_client.hpp"

#include <doctest/doctest.h>

#include <string>

#include "raw_peer.hpp"

using namespace driftgate::net;
using driftgate::net::test::CannedServer;
using driftgate::schema::ErrorCode;

namespace {

HttpClient client_for(std::uint16_t port, ClientOptions options = {}) {
  return HttpClient(Url{"127.0.0.1", port, "/"}, std::move(options));
}

driftgate::schema::Result<ClientResponse> answer_of(std::string bytes, ClientOptions options = {}) {
  const CannedServer server(std::move(bytes));
  return client_for(server.port(), std::move(options)).send({});
}

const std::string kChunked =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n";

}  // namespace

TEST_CASE("bodies by length, by chunks and by end of connection are all read") {
  CHECK(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")->body == "hello");
  CHECK(answer_of(kChunked)->body == "hello world");
  CHECK(answer_of("HTTP/1.0 200 OK\r\n\r\nto the end")->body == "to the end");
  CHECK(answer_of("HTTP/1.1 204 No Content\r\n\r\n")->status == 204);
}

TEST_CASE("interim answers are skipped") {
  const auto response =
      answer_of("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
  REQUIRE(response);
  CHECK(response->status == 201);
  CHECK(response->body == "ok");
}

TEST_CASE("a chunked answer cut at any byte is an error and never a shorter answer") {
  for (std::size_t size = 0; size < kChunked.size(); ++size) {
    CAPTURE(size);
    const auto response = answer_of(kChunked.substr(0, size));
    REQUIRE_FALSE(response);
    CHECK(response.error().code == ErrorCode::unavailable);
  }
}

TEST_CASE("answers larger than allowed are refused, in head and in body") {
  ClientOptions options;
  options.max_body_bytes = 4;
  CHECK(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", options).error().code ==
        ErrorCode::limit_exceeded);
  CHECK(answer_of(kChunked, options).error().code == ErrorCode::limit_exceeded);
  options.max_head_bytes = 64;
  CHECK(answer_of("HTTP/1.1 200 OK\r\nX: " + std::string(100, 'x') + "\r\n\r\n", options).error().code ==
        ErrorCode::limit_exceeded);
}

TEST_CASE("what is not HTTP is an error that says so") {
  const auto response = answer_of("SSH-2.0-OpenSSH\r\n\r\n");
  REQUIRE_FALSE(response);
  CHECK(response.error().code == ErrorCode::invalid_document);
}

TEST_CASE("a server that is silent ends at the deadline") {
  ClientOptions options;
  options.total_timeout = std::chrono::milliseconds(100);
  class SilentFeed : public EventFeed {
    Batch next() override { return {}; }
  };
  test::TestServer server([](const Request&) {
    Response response;
    response.feed = std::make_shared<SilentFeed>();
    return response;
  });
  const auto response = client_for(server.port(), options).send({});
  REQUIRE_FALSE(response);
  CHECK(response.error().code == ErrorCode::deadline_exceeded);
}

TEST_CASE("streamed bodies go to the callback, which may end the exchange") {
  const CannedServer server(kChunked);
  std::string seen;
  auto client = client_for(server.port());
  const auto all = client.stream({}, [&](std::string_view bytes) {
    seen += bytes;
    return true;
  });
  REQUIRE(all);
  CHECK(seen == "hello world");
  CHECK(all->body.empty());
  seen.clear();
  const auto first = client.stream({}, [&](std::string_view bytes) {
    seen += bytes;
    return false;
  });
  REQUIRE(first);
  CHECK(seen == "hello");
}

TEST_CASE("the body of an error answer is kept when a stream was asked for") {
  const CannedServer server("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone");
  auto client = client_for(server.port());
  const auto response = client.stream({}, [](std::string_view) { return true; });
  REQUIRE(response);
  CHECK(response->status == 404);
  CHECK(response->body == "gone");
}

TEST_CASE("a kept connection that the server closed is opened again") {
  const CannedServer server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  ClientOptions options;
  options.keep_alive = true;
  auto client = client_for(server.port(), options);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    const auto response = client.send({});
    REQUIRE(response);
    CHECK(response->body == "ok");
  }
}

TEST_CASE("a request that would break its own framing is not sent") {
  auto client = client_for(1);
  CHECK(client.send({.method = "GET", .target = "/a b"}).error().code == ErrorCode::invalid_argument);
  CHECK(client.send({.method = "GET", .target = "/", .headers = {{"X", "a\r\nY: b"}}}).error().code ==
        ErrorCode::invalid_argument);
}

TEST_CASE("nothing listening is unavailable and says where") {
  std::uint16_t port = 0;
  {
    const CannedServer server("");
    port = server.port();
  }
  const auto response = client_for(port).send({});
  REQUIRE_FALSE(response);
  CHECK(response.error().code == ErrorCode::unavailable);
  CHECK(response.error().describe().find(std::to_string(port)) != std::string::npos);
}
