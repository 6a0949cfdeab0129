#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "daemon/jobs/engines/batch_probe.hpp"
#include "daemon/jobs/engines/golden.hpp"
#include "tests/daemon/jobs/scripted_engine.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"
#include "tests/daemon/net/certificates.hpp"

// Engines that ask for a key, over https, and under a path.
using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::ScriptedEngine;
using driftgate::jobs::testing::TempFolder;
using driftgate::net::test::certificates;
using nlohmann::json;
using schema::ErrorCode;

namespace {

constexpr const char* kKey = "sk-engine";

net::TlsServerFiles served_as(const std::string& name) {
  return {certificates().file(name + ".pem"), certificates().file(name + ".key"), ""};
}

/// Refuses what does not show the key.
std::optional<net::Response> wants_key(const net::Request& request, const json&) {
  if (request.header("authorization") == "Bearer sk-engine") return std::nullopt;
  return ScriptedEngine::of(401, "{}");
}

struct Fixture {
  TempFolder folder;
  base::EngineAccess access{
      .key_file = key(kKey), .key_header = {}, .ca_file = certificates().file("ca.pem")};

  [[nodiscard]] std::string key(const std::string& text) const {
    const auto path = folder.file("key", text);
    ::chmod(path.c_str(), 0600);
    return path;
  }
};

}  // namespace

TEST_CASE_FIXTURE(
    Fixture, "an engine with a key, over https and under a path is probed, scored and asked as others are") {
  ScriptedEngine engine(wants_key, served_as("server"));
  engine.prefix = "/team-a/llama";
  const EngineAddress address(engine.url(), access);
  const auto found = probe_engine(address, "", {});
  REQUIRE_MESSAGE(found, found.error().describe());
  CHECK(found->notes.empty());
  CHECK(found->scoring == Scoring::echo);

  auto client = EngineClient::connect(address, "m", found->scoring, {});
  REQUIRE(client);
  CHECK(client->score("some text").has_value());

  auto golden = golden_engine(engine.url(), "m", *found);
  golden.access = access;
  CHECK(ask_golden(golden, "say it", {}).has_value());
  CHECK(read_identity(address, "m", {}).has_value());

  const auto nothing = [](std::size_t, std::size_t) {};
  const GreedyRequest asking{"/v1/completions", {{"prompt", "a"}, {"max_tokens", 4}, {"temperature", 0}}};
  const auto batches = probe_batches(address, "m", {asking, asking}, 1, {}, nothing);
  REQUIRE(batches);
  CHECK(batches->variant == std::vector<std::optional<bool>>(2, false));
}

TEST_CASE_FIXTURE(Fixture, "an engine that wants a key, or another one, says so when it is probed") {
  const ScriptedEngine engine(wants_key);
  const auto without = probe_engine(engine.url(), "", {});
  REQUIRE_FALSE(without);
  CHECK(without.error().code == ErrorCode::invalid_argument);
  CHECK(without.error().describe().find("--engine-key-file") != std::string::npos);
  access.key_file = key("sk-revoked");
  const auto wrong = probe_engine({engine.url(), access}, "", {});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().describe().find("does not take the key") != std::string::npos);
  CHECK(wrong.error().describe().find("sk-revoked") == std::string::npos);
  // An engine may show its models to everybody.
  const ScriptedEngine half(
      [](const net::Request& request, const json& body) -> std::optional<net::Response> {
        return request.method == "GET" ? std::nullopt : wants_key(request, body);
      });
  CHECK(probe_engine(half.url(), "", {}).error().describe().find("--engine-key-file") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "an engine whose certificate is not in order is sent nothing") {
  const std::pair<std::string, std::string> faulty[] = {
      {"expired", "has expired"}, {"elsewhere", "is for another host"}, {"stranger", "--ca-file"}};
  for (const auto& [name, says] : faulty) {
    CAPTURE(name);
    ScriptedEngine engine({}, served_as(name));
    const auto found = probe_engine({engine.url(), access}, "", {});
    REQUIRE_FALSE(found);
    CHECK(found.error().code == ErrorCode::forbidden);
    CHECK(found.error().describe().find(says) != std::string::npos);
    CHECK(engine.asked().empty());
  }
}

TEST_CASE_FIXTURE(Fixture, "without a CA file the system's list decides") {
  ScriptedEngine engine({}, served_as("server"));
  access.ca_file.clear();
  CHECK_FALSE(probe_engine({engine.url(), access}, "", {}));
  ::setenv("SSL_CERT_FILE", certificates().file("ca.pem").c_str(), 1);
  CHECK(probe_engine({engine.url(), access}, "", {}).has_value());
  ::unsetenv("SSL_CERT_FILE");
}

TEST_CASE_FIXTURE(Fixture, "a key goes to no host that the settings do not name") {
  const net::OutgoingPolicy everybody{.allowed_hosts = {}, .public_hosts = true};
  const auto refused = engine_http({"https://192.0.2.1:443", access}, everybody, false);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::forbidden);
  CHECK(refused.error().message.find("engines.allowed_hosts") != std::string::npos);
  access.key_file.clear();
  CHECK(engine_http({"https://192.0.2.1:443", access}, everybody, false).has_value());
}

TEST_CASE_FIXTURE(Fixture, "what an engine tells of its keys is no part of its identity") {
  const ScriptedEngine engine([](const net::Request& request, const json&) -> std::optional<net::Response> {
    if (request.path != "/get_server_info") return std::nullopt;
    return ScriptedEngine::of(json{{"api_key", "sk-other"},
                                   {"admin-api-key", "sk-other"},
                                   {"hf_token", "hf-1"},
                                   {"launched_with", "--key sk-engine"},
                                   {"eos_token", "</s>"},
                                   {"tp", 2}});
  });
  const auto identity = read_identity({engine.url(), {.key_file = access.key_file}}, "m", {});
  REQUIRE(identity);
  CHECK(*identity ==
        stages::Identity{{"models.id", "m"}, {"server_info.eos_token", "</s>"}, {"server_info.tp", "2"}});
}
