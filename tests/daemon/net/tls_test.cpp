#include <doctest/doctest.h>
#include <fmt/core.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "certificates.hpp"
#include "daemon/net/http_client.hpp"
#include "daemon/net/server.hpp"
#include "raw_peer.hpp"

using namespace driftgate;
using namespace driftgate::net;
using driftgate::net::test::certificates;
using driftgate::net::test::FunctionHandler;
using schema::ErrorCode;

namespace {

constexpr std::chrono::milliseconds kPatience{120'000};

struct Fixture {
  FunctionHandler handler;

  Fixture() {
    handler.answer = [](const Request& request) {
      Response response;
      response.body = fmt::format("{} bytes to {}", request.body.size(), request.path);
      return response;
    };
  }

  schema::Result<std::unique_ptr<Server>> start(TlsServerFiles files,
                                                std::chrono::milliseconds head_timeout = kPatience) {
    ServerOptions options;
    options.tls = std::move(files);
    options.head_timeout = head_timeout;
    return Server::start(options, handler);
  }
  std::unique_ptr<Server> started(const std::string& client_ca = {}) {
    auto server = start({certificates().file("server.pem"), certificates().file("server.key"), client_ca});
    REQUIRE_MESSAGE(server, server.error().describe());
    return std::move(*server);
  }
};

schema::Result<ClientResponse> ask(const Server& server, const TlsClientFiles& files,
                                   const std::string& body = {}, const std::string& host = "127.0.0.1") {
  ClientOptions options;
  options.tls = files;
  options.total_timeout = kPatience;
  Url url{host, server.port(), "/", true};
  ClientRequest request;
  request.method = body.empty() ? "GET" : "POST";
  request.target = "/v1/x";
  request.body = body;
  return HttpClient(url, options).send(request);
}

TlsClientFiles trusting() {
  return {.ca = certificates().file("ca.pem")};
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "requests of any size are answered under TLS") {
  const auto server = started();
  for (const std::size_t size : {0U, 1U, 100'000U, 1'000'000U}) {
    const auto response = ask(*server, trusting(), std::string(size, 'x'));
    REQUIRE_MESSAGE(response, response.error().describe());
    CHECK(response->status == 200);
    CHECK(response->body == fmt::format("{} bytes to /v1/x", size));
  }
  CHECK(ask(*server, trusting(), {}, "localhost").has_value());
}

TEST_CASE_FIXTURE(Fixture, "a server that the client's CA does not vouch for is refused") {
  const auto server = started();
  const auto refused = ask(*server, {.ca = certificates().file("stranger.pem")});
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::forbidden);
  CHECK(refused.error().describe().find("not trusted") != std::string::npos);
  CHECK(!ask(*server, {}));  // nor does the system's list
  const auto missing = ask(*server, {.ca = "/nowhere/ca.pem"});
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::io);
}

TEST_CASE_FIXTURE(Fixture, "what is wrong with a certificate is said") {
  const auto& made = certificates();
  const std::pair<std::string, std::string> faulty[] = {{"expired", "has expired"},
                                                        {"elsewhere", "is for another host"}};
  for (const auto& [name, says] : faulty) {
    CAPTURE(name);
    auto server = start({made.file(name + ".pem"), made.file(name + ".key"), ""});
    REQUIRE_MESSAGE(server, server.error().describe());
    const auto refused = ask(**server, trusting());
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::forbidden);
    CHECK(refused.error().describe().find(says) != std::string::npos);
    CHECK(refused.error().describe().find("127.0.0.1") != std::string::npos);
  }
  const auto server = started();
  TlsClientFiles advised{.ca = made.file("stranger.pem")};
  advised.ca_advice = "ask the engine's owner for its CA";
  CHECK(ask(*server, advised).error().describe().find("(ask the engine's owner for its CA)") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "a key that everybody may read is refused, and one of a group is not") {
  namespace fs = std::filesystem;
  const auto key = certificates().file("server.key") + ".copy";
  fs::copy_file(certificates().file("server.key"), key, fs::copy_options::overwrite_existing);
  fs::permissions(key, fs::perms::owner_read | fs::perms::group_read);
  CHECK(start({certificates().file("server.pem"), key, ""}));
  fs::permissions(key, fs::perms::others_read, fs::perm_options::add);
  const auto refused = start({certificates().file("server.pem"), key, ""});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::forbidden);
  CHECK(refused.error().describe().find("(mode 0444): chmod o= it") != std::string::npos);
  fs::remove(key);
}

TEST_CASE_FIXTURE(Fixture, "a client's own headers go with every request, over a connection that is kept") {
  std::mutex mutex;
  std::vector<std::string> seen;
  handler.answer = [&](const Request& request) {
    const std::scoped_lock lock(mutex);
    seen.emplace_back(request.header("authorization").value_or("none"));
    return Response{};
  };
  const auto server = started();
  ClientOptions options;
  options.tls = trusting();
  options.total_timeout = kPatience;
  options.keep_alive = true;
  options.headers = {{"Authorization", "Bearer k"}};
  HttpClient client(Url{"127.0.0.1", server->port(), "/", true}, options);
  for (int i = 0; i < 3; ++i) {
    const auto response = client.send({});
    REQUIRE_MESSAGE(response, response.error().describe());
  }
  {
    const std::scoped_lock lock(mutex);
    CHECK(seen == std::vector<std::string>(3, "Bearer k"));
  }
  options.headers = {{"Authorization", "Bearer k\r\nX-Evil: 1"}};
  CHECK(HttpClient(Url{"127.0.0.1", server->port(), "/", true}, options).send({}).error().code ==
        ErrorCode::invalid_argument);
}

TEST_CASE_FIXTURE(Fixture, "with a client CA only clients that show its certificate are answered") {
  const auto server = started(certificates().file("ca.pem"));
  TlsClientFiles files = trusting();
  CHECK(!ask(*server, files));
  files.certificate = certificates().file("stranger.pem");
  files.key = certificates().file("stranger.key");
  CHECK(!ask(*server, files));
  files.certificate = certificates().file("client.pem");
  files.key = certificates().file("client.key");
  const auto response = ask(*server, files, "hello");
  REQUIRE_MESSAGE(response, response.error().describe());
  CHECK(response->body == "5 bytes to /v1/x");
}

TEST_CASE_FIXTURE(Fixture, "plain HTTP on a TLS port is told so, and garbage is cut off") {
  const auto server = started();
  const std::string told = test::exchange(server->port(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(told.starts_with("HTTP/1.1 400 "));
  CHECK(told.find("https://") != std::string::npos);
  CHECK(test::exchange(server->port(), std::string(300, '\x7f')).find("HTTP") == std::string::npos);
  CHECK(ask(*server, trusting()).has_value());
}

TEST_CASE_FIXTURE(Fixture, "who does not shake hands in time is cut off") {
  const auto& made = certificates();
  const auto server =
      start({made.file("server.pem"), made.file("server.key"), ""}, std::chrono::milliseconds(200));
  REQUIRE(server);
  Socket silent = test::connect_and_send((*server)->port(), "\x16\x03\x01");
  CHECK(test::read_until(silent).empty());
}

TEST_CASE_FIXTURE(Fixture, "TLS to a port that speaks plain HTTP fails in time") {
  auto server = start({});
  REQUIRE(server);
  const auto refused = ask(**server, trusting());
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::unavailable);
}

TEST_CASE_FIXTURE(Fixture, "files that cannot serve are named") {
  const auto& made = certificates();
  struct Bad {
    TlsServerFiles files;
    ErrorCode code;
    std::string names;
  };
  const Bad bad[] = {
      {{"/nowhere/server.pem", made.file("server.key"), ""}, ErrorCode::io, "/nowhere/server.pem"},
      {{made.file("server.pem"), "/nowhere/server.key", ""}, ErrorCode::io, "/nowhere/server.key"},
      {{made.file("server.pem"), made.file("server.key"), "/nowhere/ca.pem"},
       ErrorCode::io,
       "/nowhere/ca.pem"},
      {{made.file("server.pem"), "", ""}, ErrorCode::invalid_argument, "tls.key_file"},
      {{made.file("server.key"), made.file("server.key"), ""}, ErrorCode::invalid_document, "server.key"},
      {{made.file("server.pem"), made.file("client.key"), ""}, ErrorCode::invalid_document, "client.key"},
      {{made.file("server.pem"), made.file("server.pem"), ""}, ErrorCode::invalid_document, "server.pem"}};
  for (const Bad& one : bad) {
    const auto refused = start(one.files);
    CAPTURE(one.names);
    REQUIRE(!refused);
    CHECK(refused.error().code == one.code);
    CHECK(refused.error().describe().find(one.names) != std::string::npos);
  }
}
