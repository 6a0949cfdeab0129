#include "daemon/cli/service/client.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>

#include "daemon/cli/exit_codes.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::run_captured;
using cli::test::ScriptedDaemon;

namespace {

constexpr const char* kModels = "GET /v1/models?limit=500";
constexpr const char* kPromotion = R"({"id":"pr-1","model":"m","state":"running"})";

/// An environment variable that has a value while this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* const before = ::getenv(name);
    if (before != nullptr) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::string problem(const std::string& code, const std::string& detail) {
  return R"({"code":")" + code + R"(","detail":")" + detail + R"("})";
}

}  // namespace

TEST_CASE("a token comes from the file that is named, else from the environment, else from the home folder") {
  ScriptedDaemon daemon;
  daemon.on(kModels, R"({"items":[]})");
  const auto sent = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"status", "--url", daemon.url()};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run_captured(words);
    CAPTURE(ran.err);
    REQUIRE(ran.exit_code == 0);
    return std::string(daemon.requests().back().header("Authorization").value_or(""));
  };
  const std::string home = file_with("") + ".home";
  std::filesystem::create_directories(home + "/.config/driftgate");
  std::filesystem::copy_file(file_with("  dg_home\r\n\n"), home + "/.config/driftgate/token");
  const Variable at_home("HOME", home);
  {
    const Variable none("DRIFTGATE_TOKEN", " \n");
    CHECK(sent({}) == "Bearer dg_home");
  }
  const Variable token("DRIFTGATE_TOKEN", " dg_variable\n");
  CHECK(sent({}) == "Bearer dg_variable");
  CHECK(sent({"--token-file", file_with("dg_file\n")}) == "Bearer dg_file");
  const Variable url("DRIFTGATE_URL", daemon.url());
  CHECK(run_captured({"status"}).exit_code == 0);
}

TEST_CASE("a token file that contains no token is said by its name before anything is sent") {
  ScriptedDaemon daemon;
  const std::string empty = file_with(" \n"), large = file_with(std::string(5'000, 'x'));
  const std::string folder = std::filesystem::path(empty).parent_path();
  const std::tuple<std::string, int, const char*> files[] = {
      {empty, 77, "contains no token"},
      {large, 4, "is larger than 4096 bytes"},
      {folder, 74, "cannot read '"},
      {folder + "/none", 74, "cannot read '"},
  };
  for (const auto& [path, code, words] : files) {
    CAPTURE(path);
    const Ran ran = run_captured({"status", "--url", daemon.url(), "--token-file", path});
    CHECK(ran.exit_code == code);
    CAPTURE(ran.err);
    CHECK(has(ran.err, words));
    CHECK(has(ran.err, path));
  }
  CHECK(daemon.requests().empty());
}

TEST_CASE("a URL that is none is refused with the words that are wrong") {
  const std::pair<const char*, const char*> urls[] = {
      {"127.0.0.1:7433", "127.0.0.1:7433"}, {"ftp://host", "ftp://host"},      {"http://", "no host"},
      {"http://host:0", "bad port"},        {"http://host:70000", "bad port"}, {"http://host:", "empty port"},
      {"http://user@host", "user name"},    {"http://ho st", "not a URL"},     {"http://[::1", "not a URL"},
  };
  for (const auto& [url, words] : urls) {
    CAPTURE(url);
    const Ran ran = run_captured({"status", "--url", url, "--token-file", file_with("dg_x")});
    CHECK(ran.exit_code == 4);
    CAPTURE(ran.err);
    CHECK(has(ran.err, words));
    CHECK(ran.out.empty());
  }
}

TEST_CASE("each problem of the daemon has the exit code of its kind, and its words are printed as they are") {
  const std::tuple<int, const char*, int> problems[] = {
      {400, "invalid_argument", 4},
      {422, "invalid_document", 4},
      {422, "invalid_capture", 4},
      {422, "not_comparable", 4},
      {404, "not_found", 4},
      {409, "already_exists", 4},
      {409, "conflict", 4},
      {401, "unauthenticated", 77},
      {403, "forbidden", 77},
      {413, "limit_exceeded", 4},
      {501, "unsupported", 4},
      {503, "unavailable", 69},
      {504, "deadline_exceeded", 4},
      {500, "io", 74},
      {507, "storage_full", 74},
      {500, "corrupt", 4},
      {500, "internal", 4},
      {429, "", 69},
      {408, "of_a_newer_daemon", 69},
      {418, "teapot", 4},
      {502, "", 4},
  };
  for (const auto& [status, code, wanted] : problems) {
    CAPTURE(status);
    CAPTURE(code);
    ScriptedDaemon daemon;
    daemon.on(kModels, problem(code, "what, where\\nand what to do"), status);
    const Ran ran = daemon.run({"status"});
    CHECK(ran.exit_code == wanted);
    CHECK(has(ran.err, "what, where\nand what to do"));
    CHECK(ran.out.empty());
  }
}

TEST_CASE("a problem cannot steer the terminal on which it is printed") {
  ScriptedDaemon daemon;
  daemon.on(kModels, problem("conflict", "first\\n\\u001b]0;title\\u0007second\\u009b31m"), 409);
  const Ran ran = daemon.run({"status"});
  CHECK(ran.exit_code == 4);
  CHECK(ran.err == "driftgate: first\n ]0;title second 31m\n");
}

TEST_CASE("what is no answer of driftgate is said to be none, with the question whether the URL is right") {
  const std::pair<int, const char*> answers[] = {
      {200, ""},       {200, "<html>"},           {200, "[]"},
      {200, "\"ok\""}, {404, "not found"},        {502, ""},
      {301, ""},       {500, R"({"error":"x"})"}, {403, R"({"detail":7})"},
      {404, "[]"}};
  for (const auto& [status, body] : answers) {
    CAPTURE(status);
    CAPTURE(body);
    ScriptedDaemon daemon;
    daemon.on(kModels, body, status);
    const Ran ran = daemon.run({"status"});
    CHECK(ran.exit_code == 4);
    CAPTURE(ran.err);
    CHECK(has(ran.err, "is the URL right?"));
    if (status != 200) CHECK(has(ran.err, "status " + std::to_string(status)));
  }
}

TEST_CASE("what does not speak HTTP, or is cut off, is an error and no empty list") {
  const std::pair<const char*, int> answers[] = {
      {"", 69},
      {"SSH-2.0-OpenSSH_9.2\r\n", 4},
      {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"items\":[]}", 69},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{\"items\":[]}\r\n", 69}};
  for (const auto& [bytes, code] : answers) {
    CAPTURE(bytes);
    const net::test::CannedServer peer(bytes);
    const Ran ran = run_captured({"status", "--url", "http://127.0.0.1:" + std::to_string(peer.port()),
                                  "--token-file", file_with("dg_x")});
    CHECK(ran.exit_code == code);
    CHECK(ran.out.empty());
    CHECK(has(ran.err, std::to_string(peer.port())));
  }
}

TEST_CASE("a request that makes something carries a key of its own, so that a retry makes it once") {
  ScriptedDaemon daemon;
  const std::string file = file_with("{}");
  daemon.on("POST /v1/contracts", R"({"name":"c","digest":"sha256:c"})", 201);
  daemon.on("POST /v1/promotions", kPromotion, 201);
  const std::vector<std::string> promote{"promote", "m", "--engine", "e", "--contract", "c"};
  REQUIRE(daemon.run({"contract", "register", file}).exit_code == 0);
  REQUIRE(daemon.run({"contract", "register", file}).exit_code == 0);
  REQUIRE(daemon.run(promote).exit_code == 0);
  auto keyed = promote;
  keyed.insert(keyed.end(), {"--idempotency-key", "mine"});
  REQUIRE(daemon.run(keyed).exit_code == 0);
  std::set<std::string> keys;
  for (const net::Request& request : daemon.requests())
    keys.insert(std::string(request.header("Idempotency-Key").value_or("none")));
  CHECK(keys.size() == 4);
  CHECK(keys.contains("mine"));
  CHECK_FALSE(keys.contains("none"));
  CHECK(daemon.requests()[0].header("Content-Type") == "application/yaml");
}

TEST_CASE("a path below which the daemon is served stands before every request") {
  ScriptedDaemon daemon;
  daemon.on("GET /gate/v1/models?limit=500", R"({"items":[]})");
  for (const char* base : {"/gate", "/gate/"}) {
    const Ran ran = run_captured({"status", "--url", daemon.url() + base, "--token-file", file_with("dg_x")});
    CHECK(ran.exit_code == 0);
  }
}

TEST_CASE("names go into a path as one part of it, whatever they hold") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/models/a%2F..%2Fb%3Fc%23%20%C3%A4", R"({"name":"x"})");
  CHECK(daemon.run({"status", "a/../b?c# ä"}).exit_code == 0);
  daemon.on("GET /v1/promotions/pr-1%2F..", kPromotion);
  CHECK(daemon.run({"status", "pr-1/.."}).exit_code == 0);
  CHECK(daemon.requests().size() == 2);
}

TEST_CASE("an event stream that is cut is taken up again behind the last event that came") {
  ScriptedDaemon daemon;
  const std::string events = "GET /v1/promotions/pr-1/events";
  daemon.stream(events, "id: 41\nevent: entry\ndata: {\"kind\":\"note\",\"seq\":41}\n\n");
  daemon.answer = [&, first = daemon.answer](const net::Request& request) {
    auto response = first(request);
    if (request.header("Last-Event-ID") == "41")
      response.body = "id: 42\nevent: end\ndata: {\"id\":\"pr-1\",\"state\":\"aborted\"}\n\n";
    return response;
  };
  const Ran ran = daemon.run({"watch", "pr-1"});
  CHECK(ran.exit_code == 5);
  CHECK(has(ran.out, "note"));
  CHECK(has(ran.out, "aborted"));
  CHECK(daemon.requests().size() == 2);
}

TEST_CASE("a stream that breaks is not taken up again when its reader has left") {
  ScriptedDaemon daemon;
  daemon.stream("GET /v1/promotions/pr-1/events", "id: 41\nevent: entry\ndata: {\"seq\":41}\n\n");
  auto client = cli::Client::open({.url = daemon.url(), .token_file = file_with("dg_token")});
  REQUIRE(client);
  int cuts = 0;
  const cli::StreamHooks hooks{.on_cut =
                                   [&](const std::string&) {
                                     ++cuts;
                                     return false;
                                   },
                               .max_resumes = std::numeric_limits<int>::max()};
  CHECK(client->follow(
      "/v1/promotions/pr-1/events", [](const net::SseEvent&) { return true; }, hooks));
  CHECK(cuts == 1);
  CHECK(daemon.requests().size() == 1);
}

TEST_CASE("a daemon that restarts under a stream is waited for, one that refuses from the beginning is not") {
  ScriptedDaemon daemon;
  daemon.stream("GET /v1/promotions/pr-1/events",
                "id: 41\nevent: entry\ndata: {\"kind\":\"note\",\"seq\":41}\n\n");
  std::atomic<int> asked = 0;
  daemon.answer = [&, first = daemon.answer](const net::Request& request) {
    auto response = first(request);
    const int now = ++asked;
    if (now == 2 || now == 3) return net::plain_problem(503, "unavailable", "starting");
    if (now > 3) response.body = "id: 42\nevent: end\ndata: {\"id\":\"pr-1\",\"state\":\"aborted\"}\n\n";
    return response;
  };
  CHECK(daemon.run({"watch", "pr-1"}).exit_code == 5);
  CHECK(daemon.requests().back().header("Last-Event-ID") == "41");
  ScriptedDaemon refusing;
  refusing.on("GET /v1/promotions/pr-1/events", problem("unavailable", "starting"), 503);
  CHECK(refusing.run({"watch", "pr-1"}).exit_code == 69);
  CHECK(refusing.requests().size() == 1);
}

TEST_CASE("a stream's hostile events are passed over, and those with news are printed once each") {
  ScriptedDaemon daemon;
  const std::string progress = "event: progress\ndata: {\"state\":\"running\",\"stage\":\"canary\"}\n\n";
  daemon.stream("GET /v1/promotions/pr-1/events",
                ": heartbeat\n\nevent: entry\ndata: no json\n\nevent: entry\ndata: [1]\n\nevent: "
                "progress\ndata: 7\n\n" +
                    progress + progress +
                    "event: entry\ndata: {\"kind\":\"note\",\"body\":{\"message\":\"\\u001b[2J\"}}\n\n"
                    "event: end\ndata: {\"id\":\"pr-1\",\"state\":\"succeeded\"}\n\n");
  const Ran ran = daemon.run({"watch", "pr-1"});
  CAPTURE(ran.out);
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.find("… running canary") == ran.out.rfind("… running canary"));
  CHECK(has(ran.out, "… running canary"));
  CHECK_FALSE(has(ran.out, "\x1b"));
  const Ran as_json = daemon.run({"watch", "pr-1", "--json"});
  CHECK(as_json.exit_code == 0);
  CHECK(has(as_json.out, R"({"data":{"id":"pr-1","state":"succeeded"},"event":"end","id":null})"));
}

TEST_CASE("watching ends where only people can go on, and says what they can do") {
  ScriptedDaemon daemon;
  daemon.stream("GET /v1/promotions/pr-1/events",
                "event: progress\ndata: {\"id\":\"pr-1\",\"state\":\"inconclusive\",\"waiver\":{\"needed\":2,"
                "\"evidence_digest\":\"sha256:w\",\"clauses\":[{\"clause\":\"numerical.kl\"}]}}\n\n");
  const Ran ran = daemon.run({"watch", "pr-1"});
  CHECK(ran.exit_code == 3);
  CHECK(
      has(ran.out,
          "inconclusive (0 of 2): driftgate waive pr-1 --clause numerical.kl --evidence sha256:w --reason"));
  CHECK(daemon.requests().size() == 1);
}

TEST_CASE("watching what is not there ends at once with the daemon's words") {
  ScriptedDaemon daemon;
  const Ran gone = daemon.run({"watch", "pr-9"});
  CHECK(gone.exit_code == 4);
  CHECK(has(gone.err, "/v1/promotions/pr-9/events"));
  CHECK(daemon.requests().size() == 1);
  daemon.on("GET /v1/promotions?limit=1&model=m", R"({"items":[]})");
  const Ran none = daemon.run({"watch", "m"});
  CHECK(none.exit_code == 4);
  CHECK(none.err ==
        "driftgate: model 'm' has no promotion: name one (pr-…) or start one with 'driftgate promote'\n");
}

TEST_CASE("a file to send is read up to its limit, and a folder is no file") {
  const std::string most = file_with(std::string(100, 'x'));
  CHECK(cli::read_file(most, 100)->size() == 100);
  const auto more = cli::read_file(most, 99);
  REQUIRE_FALSE(more);
  CHECK(more.error().code == schema::ErrorCode::limit_exceeded);
  CHECK(more.error().message == "'" + most + "' is larger than 99 bytes");
  const std::string folder = std::filesystem::path(most).parent_path();
  const auto none = cli::read_file(folder);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == schema::ErrorCode::io);
  ScriptedDaemon daemon;
  CHECK(daemon.run({"contract", "register", folder}).exit_code == 74);
  CHECK(daemon.run({"kernel", "register", folder + "/none"}).exit_code == 74);
  CHECK(daemon.requests().empty());
}

TEST_CASE("the state of a promotion that has not ended is no success") {
  const std::pair<const char*, int> states[] = {{"succeeded", 0},  {"rejected", 1}, {"inconclusive", 3},
                                                {"expired", 3},    {"errored", 4},  {"aborted", 5},
                                                {"superseded", 5}, {"running", 4},  {"queued", 4},
                                                {"", 4},           {"Succeeded", 4}};
  for (const auto& [state, code] : states) CHECK(cli::exit_code_of_state(state) == code);
}
