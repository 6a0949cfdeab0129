#include <nlohmann/json.hpp>

#include "tests/examples/tinylm/server_process.hpp"

using namespace tinylm;
using nlohmann::json;
using tinylm_tests::request_bytes;
using tinylm_tests::ServerProcess;

namespace {

constexpr Milliseconds kPatience{20'000};

void check_alive(const ServerProcess& server) {
  CHECK(server.complete(R"({"prompt":"a","max_tokens":1})").status == 200);
}

void check_error(const HttpResponse& response, int status) {
  CHECK(response.status == status);
  const json body = json::parse(response.body);
  CHECK(body["error"]["message"].is_string());
  CHECK(body["error"]["type"] == "invalid_request_error");
}

}  // namespace

TEST_CASE("malformed bodies, paths and methods get 4xx with a JSON error") {
  const ServerProcess server({"--kernel", "f32"});
  for (const std::string body :
       {"", "{", "null", "[]", "{}", R"({"prompt":1})", "\xFF\xFE", R"({"prompt":"\ud800"})",
        R"({"prompt":"a","max_tokens":600})", "{\"prompt\":\"\xC3\"}"}) {
    CAPTURE(body);
    check_error(server.complete(body), 400);
  }
  check_error(server.complete(std::string(200'000, '[')), 400);
  check_error(server.request("GET", "/v1/completions", ""), 405);
  check_error(server.request("POST", "/v1/models", ""), 405);
  check_error(server.request("GET", "/nothing", ""), 404);
  check_alive(server);
}

TEST_CASE("bytes that are not HTTP get 400 and the connection closes") {
  const ServerProcess server({"--kernel", "f32"});
  for (const std::string bytes : {"hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                                  "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n"}) {
    CAPTURE(bytes);
    HttpConnection connection(server.connect());
    REQUIRE(connection.socket().send_all(bytes, kPatience).has_value());
    const auto response = connection.read_response(kPatience);
    REQUIRE(response.has_value());
    CHECK(response->status == 400);
    CHECK_FALSE(response->keep_alive);
  }
  check_alive(server);
}

TEST_CASE("a header or a body beyond its limit is refused") {
  const ServerProcess server({"--kernel", "f32"});
  HttpConnection header(server.connect());
  REQUIRE(header.socket()
              .send_all("GET /health HTTP/1.1\r\nX: " + std::string(20'000, 'x'), kPatience)
              .has_value());
  CHECK(header.read_response(kPatience)->status == 431);
  HttpConnection body(server.connect());
  REQUIRE(body.socket()
              .send_all("POST /v1/completions HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n", kPatience)
              .has_value());
  CHECK(body.read_response(kPatience)->status == 413);
  check_alive(server);
}

TEST_CASE("a request cut at any byte harms nobody") {
  const ServerProcess server({"--kernel", "f32"});
  const std::string whole = request_bytes("POST", "/v1/completions", R"({"prompt":"a","max_tokens":1})");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    Socket socket = server.connect();
    CHECK(socket.send_all(whole.substr(0, n), kPatience).has_value());
  }
  check_alive(server);
}

TEST_CASE("a client that leaves in the middle of a stream harms nobody") {
  const ServerProcess server({"--kernel", "f32", "--max-batch", "2"});
  for (int i = 0; i < 20; ++i) {
    Socket socket = server.connect();
    CHECK(socket
              .send_all(request_bytes("POST", "/v1/completions",
                                      R"({"prompt":"a","max_tokens":400,"stream":true})"),
                        kPatience)
              .has_value());
  }
  check_alive(server);
}

TEST_CASE("requests on one connection are answered in order") {
  const ServerProcess server({"--kernel", "f32"});
  HttpConnection connection(server.connect());
  const std::string two = request_bytes("GET", "/health", "") +
                          request_bytes("POST", "/v1/completions", "{") +
                          request_bytes("GET", "/v1/models", "");
  REQUIRE(connection.socket().send_all(two, kPatience).has_value());
  CHECK(connection.read_response(kPatience)->status == 200);
  CHECK(connection.read_response(kPatience)->status == 400);
  CHECK(connection.read_response(kPatience)->body.find("checkpoint_digest") != std::string::npos);
}
