#include "daemon/cli/command_line.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "captured.hpp"
#include "daemon/api/api.hpp"
#include "daemon/net/server.hpp"
#include "tests/daemon/api/fakes.hpp"

using namespace driftgate;
using driftgate::cli::test::file_with;
using driftgate::cli::test::Ran;
using driftgate::cli::test::run_captured;

namespace {

/// A daemon's API over fakes, on a socket.
struct Daemon {
  api::test::FakeService service;
  api::test::FakeTokens tokens;
  api::test::FakeEvidence evidence;
  api::test::FakeIdempotency idempotency;
  api::test::FakeRecipes recipes;
  api::Api api{api::Context{.service = service,
                            .tokens = tokens,
                            .evidence = evidence,
                            .idempotency = idempotency,
                            .now_us = [] { return std::int64_t{1}; },
                            .ready = [] { return std::vector<api::ReadyCheck>{}; },
                            .more_metrics = [] { return std::string(); },
                            .log = {},
                            .recipes = &recipes}};
  std::unique_ptr<net::Server> server = std::move(*net::Server::start({}, api));

  Ran run(std::vector<std::string> words, const std::string& scopes) {
    words.push_back("--url");
    words.push_back("http://127.0.0.1:" + std::to_string(server->port()));
    words.push_back("--token-file");
    words.push_back(file_with("dg_" + scopes + "\n"));
    return run_captured(words);
  }
};

}  // namespace

TEST_CASE("the help lists every command under a heading, what a newcomer needs first") {
  const Ran ran = run_captured({"--help"});
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.find("Set up:\n  init ") != std::string::npos);
  CHECK(ran.out.find("Set up:") < ran.out.find("Promote:"));
  CHECK(ran.out.find("Subcommands:") == std::string::npos);  // the heading of those without a group
}

TEST_CASE("a command line that makes no sense is exit 64 with a hint") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{},
                                                {"nonsense"},
                                                {"watch"},
                                                {"approve", "pr-1"},
                                                {"abort", "pr-1"},
                                                {"promote"},
                                                {"promote", "m"},
                                                {"promote", "--engine", "e"},
                                                {"recipe", "set", "m"},
                                                {"apply"},
                                                {"drift", "only-one"},
                                                {"engine", "register", "e"},
                                                {"status", "--nonsense"},
                                                {"token", "issue", "--name", "a"},
                                                {"evidence", "--limit", "0"}}) {
    CAPTURE(words.size());
    const Ran ran = run_captured(words);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 64);
    CHECK(ran.err.starts_with("driftgate: "));
  }
}

TEST_CASE("help and version are exit 0") {
  CHECK(run_captured({"--help"}).exit_code == 0);
  CHECK(run_captured({"--help"}).out.find("69 daemon unreachable") != std::string::npos);
  CHECK(run_captured({"version"}).out == "driftgate test\n");
}

TEST_CASE("a daemon that is not there is exit 69 and the message says where and what to do") {
  const Ran ran =
      run_captured({"status", "--url", "http://127.0.0.1:1", "--token-file", file_with("dg_viewer")});
  CHECK(ran.exit_code == 69);
  CHECK(ran.err.find("http://127.0.0.1:1") != std::string::npos);
  CHECK(ran.err.find("driftgate serve") != std::string::npos);
}

TEST_CASE("no token and a refused token are exit 77, an unreadable token file is exit 74") {
  ::unsetenv("DRIFTGATE_TOKEN");
  ::setenv("HOME", "/nowhere", 1);
  const Ran none = run_captured({"status", "--url", "http://127.0.0.1:1"});
  CHECK(none.exit_code == 77);
  CHECK(none.err.find("--token-file") != std::string::npos);
  Daemon daemon;
  CHECK(daemon.run({"status"}, "nonsense").exit_code == 77);
  CHECK(daemon.run({"abort", "pr-1", "--reason", "x"}, "viewer").exit_code == 77);
  CHECK(run_captured({"status", "--token-file", "/nowhere/token"}).exit_code == 74);
}

TEST_CASE("watch exits with the outcome of the promotion") {
  const std::pair<const char*, int> outcomes[] = {{"succeeded", 0}, {"rejected", 1}, {"inconclusive", 3},
                                                  {"expired", 3},   {"errored", 4},  {"aborted", 5},
                                                  {"superseded", 5}};
  for (const auto& [state, code] : outcomes) {
    CAPTURE(state);
    Daemon daemon;
    daemon.service.state = state;
    const Ran ran = daemon.run({"watch", "pr-1"}, "viewer");
    CHECK(ran.exit_code == code);
    CHECK(ran.out.find("state_changed") != std::string::npos);
    CHECK(ran.out.find(state) != std::string::npos);
    CHECK(ran.out.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("promote --wait exits with the outcome, of a model's newest promotion watch finds the id") {
  Daemon daemon;
  daemon.service.state = "rejected";
  CHECK(daemon.run({"promote", "m", "--engine", "e", "--contract", "c", "--wait"}, "promoter").exit_code ==
        1);
  CHECK(daemon.run({"watch", "m"}, "viewer").exit_code == 1);
}

TEST_CASE("promote sends captures; what is left out may come from the recipe") {
  Daemon daemon;
  const std::vector<std::string> words{"promote", "m", "--engine", "e", "--contract", "c"};
  std::vector<std::string> half = words;
  half.insert(half.end(), {"--numeric-train", "a"});
  const Ran refused = daemon.run(half, "promoter");  // these fakes have no recipe for it
  CHECK(refused.exit_code == 4);
  CHECK(refused.err.find("'inf' is missing") != std::string::npos);
  half.insert(half.end(), {"--numeric-adapter", "torch"});
  half.insert(half.end(), {"--numeric-floor-train", "b", "--numeric-floor-inf-adapter", "torch-batch8"});
  const Ran ran = daemon.run(half, "promoter");
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.find("driftgate watch pr-1") != std::string::npos);
}

TEST_CASE("the same idempotency key starts one promotion") {
  Daemon daemon;
  const std::vector<std::string> words{"promote",    "m", "--engine",          "e",
                                       "--contract", "c", "--idempotency-key", "k"};
  CHECK(daemon.run(words, "promoter").exit_code == 0);
  CHECK(daemon.run(words, "promoter").exit_code == 0);
  CHECK(daemon.service.promotions_made == 1);
}

TEST_CASE("faults of a document are printed as the daemon tells them and are exit 4") {
  Daemon daemon;
  daemon.service.failure =
      schema::Error{schema::ErrorCode::invalid_document, "c:1:2: first\nc:3:4: second", {}, nullptr};
  const Ran ran = daemon.run({"contract", "register", file_with("x")}, "promoter");
  CHECK(ran.exit_code == 4);
  CHECK(ran.err == "driftgate: c:1:2: first\nc:3:4: second\n");
  CHECK(daemon.run({"contract", "register", "/nowhere/contract.yaml"}, "promoter").exit_code == 74);
}

TEST_CASE("approve names the digest that was read, and without one says when nothing waits") {
  Daemon daemon;
  CHECK(
      daemon.run({"approve", "pr-1", "--evidence", "sha256:ab", "--reason", "read"}, "approver").exit_code ==
      0);
  REQUIRE(daemon.service.calls.size() == 1);
  CHECK(daemon.service.calls[0] == "approver approve pr-1 sha256:ab read");
  const Ran ran = daemon.run({"approve", "pr-1", "--reason", "read"}, "approver");
  CHECK(ran.exit_code == 4);
  CHECK(ran.err.find("is not waiting for approval") != std::string::npos);
}

TEST_CASE("the interventions reach the daemon with their reason") {
  for (const char* action : {"abort", "rollback", "pause", "resume"}) {
    CAPTURE(action);
    Daemon daemon;
    CHECK(daemon.run({action, "pr-1", "--reason", "why not"}, "operator").exit_code == 0);
    CHECK(daemon.service.calls.at(0) == std::string("operator ") + action + " pr-1 why not");
  }
}

TEST_CASE("the table of commands has every command with what completes it") {
  const Ran ran = run_captured({"commands"});
  REQUIRE(ran.exit_code == 0);
  const auto table = nlohmann::json::parse(ran.out);
  const auto named = [](const nlohmann::json& list, const char* key, const std::string& name) {
    for (const auto& item : list)
      if (item[key] == name || (item[key].is_array() && item[key].back() == name)) return item;
    return nlohmann::json();
  };
  const auto drift = named(table["commands"], "name", "drift");
  REQUIRE(drift.is_object());
  const auto metrics = named(drift["options"], "names", "--metrics");
  CHECK(metrics["value"] == "TEXT:{all,core}");
  CHECK_FALSE(metrics["flag"].get<bool>());
  CHECK(named(drift["options"], "names", "train")["positional"].get<bool>());
  const auto audit = named(table["commands"], "name", "audit");
  CHECK(named(named(audit["commands"], "name", "query")["options"], "names", "--newest")["flag"].get<bool>());
  for (const char* direct : {"router-stop", "drain", "haproxy"})
    CHECK(named(table["commands"], "name", direct).is_object());
  CHECK(table["exit_codes"].get<std::string>().starts_with("Exit codes: "));
}

TEST_CASE("every listing takes --json") {
  Daemon daemon;
  for (const std::vector<std::string>& words : {std::vector<std::string>{"status"},
                                                {"status", "m"},
                                                {"status", "pr-1"},
                                                {"model", "list"},
                                                {"kernel", "list"},
                                                {"engine", "list"},
                                                {"contract", "list"},
                                                {"token", "list"}}) {
    std::vector<std::string> with_json = words;
    with_json.push_back("--json");
    CAPTURE(words.back());
    const Ran ran = daemon.run(with_json, "admin");
    CHECK(ran.exit_code == 0);
    CHECK_FALSE(nlohmann::json::parse(ran.out, nullptr, false).is_discarded());
    CHECK(daemon.run(words, "admin").exit_code == 0);
  }
}

TEST_CASE("lists follow the pages to the end") {
  Daemon daemon;
  const Ran ran = daemon.run({"engine", "list", "--json"}, "viewer");
  CHECK(nlohmann::json::parse(ran.out)["items"].size() == 2);
}

TEST_CASE("evidence prints one line an entry, at most the limit, and one entry's exact bytes") {
  Daemon daemon;
  const Ran all = daemon.run({"evidence", "--promotion", "pr-1", "--limit", "3"}, "auditor");
  CHECK(all.exit_code == 0);
  CHECK(std::ranges::count(all.out, '\n') == 3);
  CHECK(daemon.run({"evidence", "4"}, "auditor").out == api::test::FakeEvidence::entry_json(4) + "\n");
}

TEST_CASE("an issued token goes into a new file that only its owner can read") {
  Daemon daemon;
  const std::string path = file_with("") + ".token";
  const Ran ran =
      daemon.run({"token", "issue", "--name", "bob", "--scope", "viewer,auditor", "--out", path}, "admin");
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.find("dg_") == std::string::npos);
  const Ran again =
      daemon.run({"token", "issue", "--name", "bob", "--scope", "viewer", "--out", path}, "admin");
  CHECK(again.exit_code == 74);
}
