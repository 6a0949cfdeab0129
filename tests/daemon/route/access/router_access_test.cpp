#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "daemon/route/table/access_file.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "tests/daemon/net/certificates.hpp"
#include "tests/daemon/route/access/tls_front.hpp"
#include "tests/daemon/route/test_router.hpp"

// Engines that ask for a key, over https, and under a path.
using namespace driftgate;
using namespace driftgate::route;
using driftgate::net::test::certificates;

namespace {

constexpr std::chrono::seconds kPatience{120};
constexpr std::chrono::milliseconds kPoll{5};
constexpr const char* kUsersKey = "Authorization: Bearer users-own\r\n";

/// A file as an operator replaces one: whole, and with the mode of a key.
void put_file(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new", std::ios::binary) << text;
  ::chmod((path + ".new").c_str(), 0600);
  std::filesystem::rename(path + ".new", path);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A router whose daemon knows what engines ask for.
struct Gated {
  explicit Gated(const TestRouter::Change& change = {}) : router(change) {
    router.driver().ask_access_of([this](const std::string& url) -> schema::Result<base::EngineAccess> {
      const auto found = access.find(url);
      return found == access.end() ? base::EngineAccess{} : found->second;
    });
  }
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    put_file(files.at(name), text);
    return files.at(name);
  }
  /// Asks until the engine was shown `text`.
  void ask_until_seen(const ScriptedEngine& engine, const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    TestClient client(router.port());
    while (engine.seen().empty() || engine.seen().back().find(text) == std::string::npos) {
      client.post(tiny_request());
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::this_thread::sleep_for(kPoll);  // files are looked at once a second
    }
  }

  TemporaryFolder files;
  std::map<std::string, base::EngineAccess> access;
  TestRouter router;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string code_of(const TestClient::Answer& answer) {
  const auto at = answer.body.find("\"code\":\"");
  return at == std::string::npos ? "" : answer.body.substr(at + 8, answer.body.find('"', at + 8) - at - 8);
}

struct Front {
  explicit Front(const ScriptedEngine& engine, const std::string& certificate = "server")
      : tls(engine.url(), certificates().file(certificate + ".pem"),
            certificates().file(certificate + ".key")) {}
  TlsFront tls;
};

std::string ca() {
  return certificates().file("ca.pem");
}

}  // namespace

TEST_CASE("an engine gets its own key in place of the user's, and another engine the user's") {
  ScriptedEngine keyed(serve_completions("keyed"));
  ScriptedEngine open(serve_completions("open"));
  Gated gated;
  gated.access[keyed.url()].key_file = gated.file("key", "sk-engine\n");
  gated.router.apply(route_to(keyed.url()));
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request(), std::string(kUsersKey) + "X-Api-Key: users-other\r\n").status == 200);
  const auto seen = keyed.seen().back();
  CHECK(seen.find("\r\nAuthorization: Bearer sk-engine\r\n") != std::string::npos);
  CHECK(seen.find("users-own") == std::string::npos);
  CHECK(count_of(seen, "Authorization:") == 1);
  CHECK(seen.find("X-Api-Key: users-other") != std::string::npos);

  gated.router.apply(route_to(open.url()));
  CHECK(client.post(tiny_request(), kUsersKey).status == 200);
  CHECK(open.seen().back().find("Authorization: Bearer users-own\r\n") != std::string::npos);
  CHECK(open.seen().back().find("sk-engine") == std::string::npos);
}

TEST_CASE("a key in a header of its own replaces that header and the user's Authorization") {
  ScriptedEngine engine(serve_completions("one"));
  Gated gated;
  gated.access[engine.url()] = {gated.file("key", "sk-engine"), "X-Api-Key", ""};
  gated.router.apply(route_to(engine.url()));
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request(), std::string(kUsersKey) + "x-api-key: users-other\r\n").status == 200);
  const auto seen = engine.seen().back();
  CHECK(seen.find("\r\nX-Api-Key: sk-engine\r\n") != std::string::npos);
  CHECK(seen.find("users-") == std::string::npos);
}

TEST_CASE(
    "a key that was replaced is shown without a word to the router, and a broken file changes nothing") {
  ScriptedEngine engine(serve_completions("one"));
  Gated gated;
  const auto path = gated.file("key", "sk-first");
  gated.access[engine.url()].key_file = path;
  gated.router.apply(route_to(engine.url()));
  gated.ask_until_seen(engine, "Bearer sk-first\r\n");
  put_file(path, "sk-second");
  gated.ask_until_seen(engine, "Bearer sk-second\r\n");
}

TEST_CASE("a key file that cannot be read keeps no route away, and its engine is asked once it can be") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  Gated gated;
  const auto path = gated.files.at("later");
  gated.access[candidate.url()].key_file = path;
  gated.router.apply(route_to(incumbent.url(), candidate.url(), 10'000));
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request()).body == completion_of("inc"));
  const auto seen = gated.router.observations(1);
  CHECK(seen[0].outcome == Outcome::failed);
  CHECK(seen[0].reason == "credentials");
  CHECK(candidate.requests() == 0);
  gated.router.apply(route_to(candidate.url()));
  CHECK(code_of(client.post(tiny_request())) == "engine_credentials");
  put_file(path, "sk-late");
  gated.ask_until_seen(candidate, "Bearer sk-late\r\n");
}

TEST_CASE("a request that must not be made twice goes to the incumbent when no word of it was sent") {
  const auto answering = [](const char* name) {
    return [name](ScriptedEngine::Visit& visit) { visit.send(answer_with(200, name, "text/plain")); };
  };
  ScriptedEngine incumbent(answering("inc"));
  ScriptedEngine candidate(answering("cand"));
  const Front front(candidate, "expired");
  Gated gated([](RouterOptions& options) { options.further_paths = "/v1/files"; });
  gated.access[front.tls.url()].ca_file = ca();
  gated.access[candidate.url()].key_file = gated.files.at("missing");
  TestClient client(gated.router.port());
  for (const auto& url : {front.tls.url(), candidate.url()}) {
    CAPTURE(url);
    gated.router.apply(route_to(incumbent.url(), url, 10'000));
    CHECK(client.post("{}", {}, "/v1/files").body == "inc");
  }
  CHECK(candidate.requests() == 0);
}

TEST_CASE("that an engine refuses its own key is its failure, and that it refuses a user's is not") {
  const auto refusing = [](ScriptedEngine::Visit& visit) {
    visit.send(answer_with(401, R"({"error":"no"})"));
  };
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(refusing);
  Gated gated;
  gated.router.apply(route_to(incumbent.url(), candidate.url(), 10'000));
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request(), kUsersKey).status == 401);
  gated.access[candidate.url()].key_file = gated.file("key", "sk-revoked");
  gated.router.apply(route_to(incumbent.url(), candidate.url(), 10'000));
  CHECK(client.post(tiny_request(), kUsersKey).body == completion_of("inc"));
  const auto seen = gated.router.observations(2);
  CHECK(seen[0].outcome == Outcome::excluded);
  CHECK(seen[1].outcome == Outcome::failed);
  CHECK(seen[1].reason == "status_401");
}

TEST_CASE("an engine over https and under a path is asked over connections that are kept") {
  const std::string large(3u << 20, 'x');
  ScriptedEngine engine([&](ScriptedEngine::Visit& visit) {
    const auto& request = visit.request();
    if (request.find("\"stream\":true") != std::string::npos)
      return visit.send(stream_head() + chunk(token_event("a")) + chunk(kDoneEvent) + kLastChunk);
    const bool wants_large = request.find("\"suffix\":\"large\"") != std::string::npos;
    visit.send(answer_with(200, completion_of(wants_large ? large : "one")));
  });
  const Front front(engine);
  Gated gated;
  const auto url = front.tls.url() + "/team-a/llama";
  gated.access[url] = {gated.file("key", "sk-engine"), "", ca()};
  gated.router.apply(route_to(url));
  TestClient client(gated.router.port());
  for (int i = 0; i < 5; ++i) {
    CHECK(client.post(tiny_request(), kUsersKey).body == completion_of("one"));
    CHECK(client.post(tiny_request(true)).body == token_event("a") + kDoneEvent);
  }
  CHECK((client.post(tiny_request(false, R"(,"suffix":"large")")).body == completion_of(large)));
  CHECK(front.tls.handshakes() == 1);
  for (const auto& seen : engine.seen()) {
    CHECK(seen.starts_with("POST /team-a/llama/v1/completions HTTP/1.1\r\nHost: 127.0.0.1:"));
    CHECK(seen.find("Authorization: Bearer sk-engine\r\n") != std::string::npos);
  }
}

TEST_CASE("whoever the CAs do not vouch for, or not for this host, or not any more, gets no request") {
  struct Bad {
    const char* certificate;
    const char* authority;
  };
  for (const auto& [certificate, authority] : {Bad{"server", "stranger.pem"}, Bad{"server", ""},
                                               Bad{"expired", "ca.pem"}, Bad{"elsewhere", "ca.pem"}}) {
    CAPTURE(certificate);
    CAPTURE(authority);
    const std::string name = authority;
    ScriptedEngine incumbent(serve_completions("inc"));
    ScriptedEngine engine(serve_completions("bad"));
    const Front front(engine, certificate);
    Gated gated;
    if (!name.empty()) gated.access[front.tls.url()].ca_file = certificates().file(name);
    gated.router.apply(route_to(incumbent.url(), front.tls.url(), 10'000));
    TestClient client(gated.router.port());
    CHECK(client.post(tiny_request()).body == completion_of("inc"));
    const auto seen = gated.router.observations(1);
    CHECK(seen[0].outcome == Outcome::failed);
    CHECK(seen[0].reason == "tls");
    gated.router.apply(route_to(front.tls.url()));
    CHECK(code_of(client.post(tiny_request())) == "engine_tls");
    CHECK(engine.requests() == 0);
  }
}

TEST_CASE("a CA file that was replaced decides on the next connection, and ends those of before") {
  ScriptedEngine engine(serve_completions("one"));
  const Front front(engine);
  Gated gated;
  const auto path = gated.file("ca.pem", content_of(ca()));
  gated.access[front.tls.url()].ca_file = path;
  gated.router.apply(route_to(front.tls.url()));
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request()).status == 200);
  put_file(path, content_of(certificates().file("stranger.pem")));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (code_of(client.post(tiny_request())) != "engine_tls") {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(kPoll);  // files are looked at once a second
  }
  put_file(path, content_of(ca()));
  while (client.post(tiny_request()).status != 200) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(kPoll);
  }
}

TEST_CASE("copies for a candidate over https have its key, and the pair has none") {
  ScriptedEngine incumbent(serve_completions("inc"));
  ScriptedEngine candidate(serve_completions("cand"));
  const Front front(candidate);
  Gated gated;
  gated.access[front.tls.url()] = {gated.file("key", "sk-engine"), "", ca()};
  auto route = route_to(incumbent.url(), front.tls.url(), 0);
  route.stage_key = "p1/shadow/1";
  route.mirror_bp = 10'000;
  route.mirror_token_budget = 1'000'000;
  gated.router.apply(route);
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request(), kUsersKey).body == completion_of("inc"));
  gated.router.windows_until([](const std::vector<Window>& windows) {
    return std::ranges::any_of(windows, [](const Window& window) { return window.mirrored > 0; });
  });
  CHECK(candidate.seen().back().find("Authorization: Bearer sk-engine\r\n") != std::string::npos);
  CHECK(candidate.seen().back().find("users-own") == std::string::npos);
  CHECK(incumbent.seen().back().find("users-own") != std::string::npos);
  const auto spool = gated.router.driver().spool_path("p1/shadow/1");
  REQUIRE(spool);
  CHECK(content_of(*spool).find("cand") != std::string::npos);
  CHECK(content_of(*spool).find("sk-engine") == std::string::npos);
}

TEST_CASE("probes of an engine's health go the same way as requests") {
  ScriptedEngine engine([](ScriptedEngine::Visit& visit) { visit.send(answer_with(200, "{}")); });
  const Front front(engine);
  Gated gated([](RouterOptions& options) { options.probe_ms = 10; });
  const auto url = front.tls.url() + "/team-a";
  gated.access[url] = {gated.file("key", "sk-engine"), "", ca()};
  gated.router.apply(route_to(url));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (engine.requests() < 2) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(kPoll);
  }
  const auto seen = engine.seen().front();
  CHECK(seen.starts_with("GET /team-a/health HTTP/1.1\r\n"));
  CHECK(seen.find("Authorization: Bearer sk-engine\r\n") != std::string::npos);
}

TEST_CASE("a router that starts without a daemon knows where the keys are, and what it keeps has none") {
  ScriptedEngine engine(serve_completions("one"));
  Gated gated;
  gated.access[engine.url()].key_file = gated.file("key", "sk-engine");
  gated.router.apply(route_to(engine.url()));
  gated.router.restart();
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request(), kUsersKey).status == 200);
  CHECK(engine.seen().back().find("Authorization: Bearer sk-engine\r\n") != std::string::npos);
  const auto& options = gated.router.options();
  for (const auto& path : {options.state_path, access_path(options)}) {
    CHECK(content_of(path).find("sk-engine") == std::string::npos);
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  // An engine that asks for nothing any more is forgotten.
  gated.access.clear();
  gated.router.apply(route_to(engine.url()));
  TestClient after(gated.router.port());
  CHECK(after.post(tiny_request(), kUsersKey).status == 200);
  CHECK(engine.seen().back().find("users-own") != std::string::npos);
  const auto kept = load_access(access_path(options));
  REQUIRE(kept);
  CHECK(kept->empty());
}

TEST_CASE("a daemon that cannot say what an engine asks for leaves the router with what it knows") {
  ScriptedEngine engine(serve_completions("one"));
  Gated gated;
  gated.access[engine.url()].key_file = gated.file("key", "sk-engine");
  gated.router.apply(route_to(engine.url()));
  gated.router.driver().ask_access_of([](const std::string&) -> schema::Result<base::EngineAccess> {
    return schema::fail(schema::ErrorCode::io, "the database cannot be read");
  });
  gated.router.apply(route_to(engine.url()));
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request()).status == 200);
  CHECK(engine.seen().back().find("Bearer sk-engine\r\n") != std::string::npos);
}

TEST_CASE("an older daemon's refused route changes nothing of what an engine is shown") {
  ScriptedEngine engine(serve_completions("one"));
  Gated gated;
  gated.access[engine.url()].key_file = gated.file("key", "sk-engine");
  auto route = route_to(engine.url());
  route.epoch = 9;
  gated.router.apply(route);
  RouterDriver older(gated.router.options().control_path);
  older.ask_access_of(
      [](const std::string&) -> schema::Result<base::EngineAccess> { return base::EngineAccess{}; });
  route.epoch = 8;
  const auto refused = older.apply(route);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == schema::ErrorCode::conflict);
  TestClient client(gated.router.port());
  CHECK(client.post(tiny_request()).status == 200);
  CHECK(engine.seen().back().find("Bearer sk-engine\r\n") != std::string::npos);
}

TEST_CASE("what engines ask for is kept as a whole or said to be corrupt") {
  const TemporaryFolder folder;
  const auto path = folder.at("access");
  CHECK(load_access(path)->empty());
  const AccessByUrl access{{"https://a:1/x", {"/keys/a", "X-Api-Key", "/keys/ca.pem"}},
                           {"http://b:2", {"/keys/b", "", ""}}};
  REQUIRE(save_access(path, access));
  CHECK(load_access(path).value_or(AccessByUrl{}) == access);
  const auto whole = content_of(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, size);
    const auto cut = load_access(path);
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code == schema::ErrorCode::corrupt);
  }
}
