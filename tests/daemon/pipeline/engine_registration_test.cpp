#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "schema/sha256.hpp"
#include "tests/daemon/jobs/scripted_engine.hpp"
#include "tests/daemon/net/certificates.hpp"
#include "tests/daemon/pipeline/harness.hpp"

// Engines that ask for a key, over https, and under a path, as they are registered and planned with.
using namespace driftgate;
using namespace driftgate::pipeline;
using driftgate::jobs::testing::ScriptedEngine;
using driftgate::net::test::certificates;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;
using schema::ErrorCode;

namespace {

struct Registering : Harness {
  Registering() {
    std::filesystem::create_directories(folder / "keys");
    settings.engine_files = (folder / "keys").string();
    put("key", "sk-engine");
    put("other", "sk-other");
    std::filesystem::copy_file(certificates().file("ca.pem"), folder / "keys" / "ca.pem");
    set_up();
  }
  void put(const std::string& name, const std::string& text) {
    std::ofstream(folder / "keys" / name, std::ios::trunc) << text;
    ::chmod((folder / "keys" / name).c_str(), 0600);
  }
  static EngineRequest request_of(const std::string& url) {
    return {.name = "gated",
            .url = url,
            .kernel = "k-inf",
            .checkpoint_uri = {},
            .checkpoint_digest = schema::sha256_digest("weights")};
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder / "keys" / name).string(); }
  [[nodiscard]] base::EngineAccess access_to(const std::string& url) {
    return store::look_up(*store, store::access_at, url).value_or(base::EngineAccess{});
  }
  [[nodiscard]] json entry() const { return entries("", "engine_registered").back(); }
};

/// Takes what shows one of these keys.
ScriptedEngine::Twist wants(const std::string& key) {
  return [key](const net::Request& request, const json&) -> std::optional<net::Response> {
    if (request.header("authorization") == "Bearer " + key) return std::nullopt;
    return ScriptedEngine::of(401, "{}");
  };
}

net::TlsServerFiles served() {
  return {certificates().file("server.pem"), certificates().file("server.key"), ""};
}

}  // namespace

TEST_CASE_FIXTURE(Registering, "a key and a CA are registered as their files, and nothing has the key") {
  ScriptedEngine engine(wants("sk-engine"), served());
  engine.prefix = "/team-a";
  auto request = request_of(engine.url() + "/v1");
  request.key_file = "key";
  request.ca_file = "ca.pem";
  const auto view = pipeline->register_engine("pia", request);
  REQUIRE_MESSAGE(view, view.error().describe());
  const auto shown = json::parse(view->json);
  CHECK(shown["url"] == engine.url());
  CHECK(shown["key_file"] == file("key"));
  CHECK(shown["key_header"] == nullptr);
  CHECK(shown["ca_digest"].get<std::string>().starts_with("sha256:"));
  CHECK(json::parse(pipeline->engine("gated")->json) == shown);
  const auto recorded = entry();
  CHECK(recorded["body"]["key_file"] == file("key"));
  CHECK(recorded["body"]["ca_digest"] == shown["ca_digest"]);
  CHECK(access_to(engine.url()) == base::EngineAccess{file("key"), "", file("ca.pem")});
  CHECK(recorded.dump().find("sk-engine") == std::string::npos);
  CHECK(view->json.find("sk-engine") == std::string::npos);
  CHECK_FALSE(pipeline->register_engine("pia", request)->created);
}

TEST_CASE_FIXTURE(Registering, "the newest registration of a URL says what its engine asks for") {
  ScriptedEngine engine([](const net::Request& request, const json&) -> std::optional<net::Response> {
    if (request.header("x-api-key") || request.header("authorization")) return std::nullopt;
    return ScriptedEngine::of(401, "{}");
  });
  auto request = request_of(engine.url());
  request.key_file = "key";
  REQUIRE(pipeline->register_engine("pia", request));
  request.key_file = file("other");
  request.key_header = "X-Api-Key";
  REQUIRE(pipeline->register_engine("pia", request)->created);
  CHECK(access_to(engine.url()) == base::EngineAccess{file("other"), "X-Api-Key", ""});
  request.key_file = request.key_header = "";
  CHECK(pipeline->register_engine("pia", request).error().code == ErrorCode::invalid_argument);
  CHECK(access_to(engine.url()).key_file == file("other"));
}

TEST_CASE_FIXTURE(Registering, "a route to an engine that asks for something else now is applied once more") {
  ScriptedEngine engine;
  auto request = request_of(engine.url());
  request.name = "served";
  request.kernel = "k-train";
  REQUIRE(pipeline->register_engine("pia", request));
  REQUIRE(pipeline->create_model("olga", {"gated-model", "served", "the first version"}));
  pipeline->tick();
  const auto times_applied = [&] {
    return std::ranges::count_if(driver.applied,
                                 [](const route::ModelRoute& route) { return route.model == "gated-model"; });
  };
  const auto before = times_applied();
  request.key_file = "key";
  REQUIRE(pipeline->register_engine("pia", request));
  pipeline->tick();
  CHECK(times_applied() == before + 1);
  pipeline->tick();
  CHECK(times_applied() == before + 1);
}

TEST_CASE_FIXTURE(Registering,
                  "files that cannot be used are refused before the engine is asked, and change nothing") {
  ScriptedEngine engine;
  struct Bad {
    std::string key_file, key_header, ca_file;
    const char* where;
    ErrorCode code;
  };
  put("open", "sk-open");
  ::chmod(file("open").c_str(), 0644);
  put("empty", "");
  const Bad bad[] = {{"none", "", "", "/key_file", ErrorCode::not_found},
                     {"/etc/passwd", "", "", "/key_file", ErrorCode::forbidden},
                     {"../data/driftgate.db", "", "", "/key_file", ErrorCode::forbidden},
                     {"open", "", "", "/key_file", ErrorCode::forbidden},
                     {"empty", "", "", "/key_file", ErrorCode::invalid_document},
                     {"key", "Host", "", "/key_header", ErrorCode::invalid_argument},
                     {"", "X-Api-Key", "", "/key_header", ErrorCode::invalid_argument},
                     {"", "", "ca.pem", "/ca_file", ErrorCode::invalid_argument}};
  for (const auto& [key_file, key_header, ca_file, where, code] : bad) {
    CAPTURE(key_file);
    CAPTURE(where);
    auto request = request_of(engine.url());
    request.key_file = key_file;
    request.key_header = key_header;
    request.ca_file = ca_file;
    const auto refused = pipeline->register_engine("pia", request);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == code);
    CHECK(refused.error().where == where);
  }
  CHECK(engine.asked().empty());
  CHECK_FALSE(pipeline->engine("gated").has_value());
}

TEST_CASE_FIXTURE(Registering,
                  "a data plane that cannot reach an engine keeps it out of promotions and models") {
  ScriptedEngine engine(wants("sk-engine"));
  auto request = request_of(engine.url());
  request.key_file = "key";
  REQUIRE(pipeline->register_engine("pia", request));
  driver.can.engine_access = false;
  const auto refused = pipeline->plan_promotion("pia", request_for("gated"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::unsupported);
  CHECK(refused.error().where == "/engine");
  CHECK(refused.error().message.find("asks for a key") != std::string::npos);
  CHECK(pipeline->create_model("olga", {"x", "gated", "a model"}).error().code == ErrorCode::unsupported);
  driver.can.engine_access = true;
  const auto planned = pipeline->plan_promotion("pia", request_for("gated"));
  CHECK_MESSAGE(planned, (planned ? "" : planned.error().describe()));
}
