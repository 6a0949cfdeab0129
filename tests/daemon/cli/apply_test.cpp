#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/cli/setup/differences.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::ScriptedDaemon;
using nlohmann::json;

namespace {

constexpr const char* kHead = "apiVersion: driftgate/v1\nkind: Setup\n";
constexpr const char* kSetup = R"(apiVersion: driftgate/v1
kind: Setup
kernels:
  - document: {name: k, dtype: f32}
engines:
  - {name: e, url: "http://127.0.0.1:8101/v1", kernel: k, checkpoint: weights, max_requests_per_second: 100}
models:
  - {name: m, engine: e}
recipes:
  - model: m
    captures: {numeric: {train: a.safetensors}}
schedules:
  - {name: nightly, cron: "0  2 * * *", promotion: {model: m, engine: e}}
)";

std::string folder_of(const std::string& file) {
  return file.substr(0, file.rfind('/'));
}

void answer_changes(ScriptedDaemon& daemon) {
  daemon.on("GET /v1/whoami", R"({"name":"ana","scopes":["promoter","operator"],"token":"tok-1"})");
  for (const char* path : {"kernels", "engines", "models"})
    daemon.on(std::string("POST /v1/") + path, R"({"name":"x"})", 201);
  daemon.on("POST /v1/schedules", R"({"name":"nightly","warnings":["it does not answer now"]})", 201);
  daemon.on("PUT /v1/models/m/recipe", R"({"model":"m","warnings":[]})", 201);
}

/// Everything that kSetup says, as the daemon shows it.
void have_all(ScriptedDaemon& daemon, const std::string& folder) {
  daemon.on("GET /v1/kernels/k", R"({"name":"k","document":{"name":"k","dtype":"f32"}})");
  daemon.on("GET /v1/engines/e", json{{"name", "e"},
                                      {"url", "http://127.0.0.1:8101"},
                                      {"kernel", "k"},
                                      {"checkpoint", "sha256:w"},
                                      {"checkpoint_uri", folder + "/weights"},
                                      {"max_requests_per_second", 100},
                                      {"key_file", nullptr},
                                      {"key_header", nullptr},
                                      {"ca_file", nullptr}}
                                     .dump());
  daemon.on("GET /v1/models/m", R"({"name":"m","incumbent":{"engine":"e"}})");
  daemon.on("GET /v1/models/m/recipe",
            json{{"model", "m"},
                 {"revision", 3},
                 {"recipe", {{"captures", {{"numeric", {{"train", folder + "/a.safetensors"}}}}}}}}
                .dump());
  daemon.on("GET /v1/schedules/nightly",
            R"({"name":"nightly","cron":"0 2 * * *","timezone":"UTC","misfire":"skip","grace_s":3600,
    "if_running":"skip","paused":false,"revision":7,"promotion":{"model":"m","engine":"e"}})");
}

std::vector<std::string> changes_of(ScriptedDaemon& daemon) {
  auto asked = daemon.asked();
  std::erase_if(asked, [](const std::string& one) { return one.starts_with("GET "); });
  for (auto& one : asked) one.resize(std::min(one.find(" {"), one.size()));
  return asked;
}

}  // namespace

TEST_CASE("apply makes what is not there, in the order in which one thing needs the other") {
  ScriptedDaemon daemon;
  answer_changes(daemon);
  const std::string file = file_with(kSetup);
  const Ran ran = daemon.run({"apply", "-f", file});
  CHECK(ran.exit_code == 0);
  CHECK(ran.out ==
        "created       kernel k\n"
        "created       engine e\n"
        "created       model m\n"
        "created       recipe m\n"
        "created       schedule nightly\n"
        "5 created, 0 changed, 0 unchanged\n");
  CHECK(ran.err == "driftgate: warning: it does not answer now\n");
  CHECK(changes_of(daemon) == std::vector<std::string>{"POST /v1/kernels", "POST /v1/engines",
                                                       "POST /v1/models", "PUT /v1/models/m/recipe",
                                                       "POST /v1/schedules"});
  const auto requests = daemon.requests();
  const auto engine = std::ranges::find_if(
      requests, [](const net::Request& one) { return one.method == "POST" && one.path == "/v1/engines"; });
  REQUIRE(engine != requests.end());
  const json sent = json::parse(engine->body);
  CHECK(sent["checkpoint"]["uri"] == folder_of(file) + "/weights");
  CHECK(sent["max_requests_per_second"].is_number_integer());
}

TEST_CASE("what is there already is unchanged, and a dry run of it exits with 0") {
  ScriptedDaemon daemon;
  const std::string file = file_with(kSetup);
  have_all(daemon, folder_of(file));
  const Ran ran = daemon.run({"apply", "-f", file, "--dry-run"});
  CHECK(ran.exit_code == 0);
  CHECK(has(ran.out, "0 to create, 0 to change, 5 unchanged\n"));
  CHECK(daemon.run({"apply", "-f", file}).exit_code == 0);
  CHECK(changes_of(daemon).empty());
}

TEST_CASE("a dry run says in words what would change, changes nothing and exits with 1") {
  ScriptedDaemon daemon;
  const std::string file = file_with(kSetup);
  have_all(daemon, folder_of(file));
  answer_changes(daemon);
  daemon.on("GET /v1/models/m", R"({"name":"m","incumbent":{"engine":"other"}})");
  daemon.on("GET /v1/models/m/recipe", R"({"model":"m","revision":3,"recipe":{"contract":"c"}})");
  daemon.on("GET /v1/schedules/nightly",
            R"({"name":"nightly","cron":"0 3 * * *","timezone":"UTC","misfire":"skip","grace_s":3600,
    "if_running":"skip","paused":true,"revision":7,"promotion":{"model":"m","engine":"e"}})");
  const Ran ran = daemon.run({"apply", "-f", file, "--dry-run"});
  CHECK(ran.exit_code == 1);
  CHECK(has(ran.out, "would change  recipe m\n                contract: \"c\" is removed\n"));
  CHECK(has(ran.out, "captures: {\"numeric\":{\"train\":\""));
  CHECK(has(ran.out, "cron: \"0 3 * * *\" becomes \"0 2 * * *\"\n"));
  CHECK(has(ran.out, "schedule nightly: it is paused, and stays so\n"));
  CHECK(has(ran.out,
            "unchanged     model m: it is served by engine other now; only a promotion changes that\n"));
  CHECK(has(ran.out, "0 to create, 2 to change, 3 unchanged\n"));
  CHECK(changes_of(daemon).empty());
  const json told = json::parse(daemon.run({"apply", "-f", file, "--dry-run", "--json"}).out);
  CHECK(told["dry_run"] == true);
  CHECK(told["resources"][3]["action"] == "changed");
  CHECK(told["resources"][3]["done"] == false);
  daemon.on("PUT /v1/models/m/recipe", R"({"model":"m"})");
  daemon.on("PUT /v1/schedules/nightly", R"({"name":"nightly"})");
  CHECK(daemon.run({"apply", "-f", file}).exit_code == 0);
  CHECK(daemon.requests().back().header("If-Match") == "\"7\"");
  CHECK(changes_of(daemon) ==
        std::vector<std::string>{"PUT /v1/models/m/recipe", "PUT /v1/schedules/nightly"});
}

TEST_CASE("apply stops at the first failure and says what was done and what was not") {
  ScriptedDaemon daemon;
  answer_changes(daemon);
  daemon.on("POST /v1/engines", R"({"code":"unavailable","detail":"the engine does not answer"})", 503);
  const std::string file = file_with(kSetup);
  const Ran ran = daemon.run({"apply", "-f", file});
  CHECK(ran.exit_code == 69);
  CHECK(ran.out ==
        "created       kernel k\n"
        "failed        engine e\n"
        "not done      model m\n"
        "not done      recipe m\n"
        "not done      schedule nightly\n"
        "1 created, 0 changed, 0 unchanged\n");
  CHECK(has(ran.err, "engine e: the engine does not answer"));
  CHECK(changes_of(daemon).size() == 2);
  const json told = json::parse(daemon.run({"apply", "-f", file, "--json"}).out);
  CHECK(has(told["error"].get<std::string>(), "does not answer"));
  CHECK(told["resources"][0]["done"] == true);
  CHECK(told["resources"][1]["done"] == false);
}

TEST_CASE("a token without a scope that is needed is told so before the first change") {
  ScriptedDaemon daemon;
  answer_changes(daemon);
  daemon.on("GET /v1/whoami", R"({"name":"bo","scopes":["promoter"],"token":"tok-2"})");
  const Ran ran = daemon.run({"apply", "-f", file_with(kSetup)});
  CHECK(ran.exit_code == 77);
  CHECK(has(ran.err, "the token of bo has the scopes promoter: the scope operator is needed for model m"));
  CHECK(changes_of(daemon).empty());
}

TEST_CASE("faults of the file are told all at once, with line, column and the nearest name") {
  ScriptedDaemon daemon;
  const auto refused = [&](const std::string& rest) {
    const Ran ran = daemon.run({"apply", "-f", file_with(kHead + rest)});
    CHECK(ran.exit_code == 4);
    CHECK(daemon.requests().empty());
    return ran.err;
  };
  const auto several = refused("kernals: []\nengines:\n  - {name: e, ulr: x, kernel: k, checkpoint: w}\n");
  CHECK(has(several, ":3:1: "));
  CHECK(has(several, "did you mean \"kernels\"?"));
  CHECK(has(several, ":5:15: "));
  CHECK(has(several, "did you mean \"url\"?"));
  CHECK(has(several, "the field \"url\" of an engine is missing"));
  CHECK(has(refused("models: [{name: m, engine: e}, {name: m, engine: f}]\n"),
            "the model \"m\" is in the file twice"));
  CHECK(has(refused("models: [{name: ../m, engine: e}]\n"), "\"name\""));
  CHECK(has(refused("contracts: [missing.yaml]\n"), "missing.yaml"));
  CHECK(
      has(refused("contracts: [{document: {apiVersion: driftgate/v1, kind: KernelContract}}]\n"), ":3:24: "));
  CHECK(has(refused("contracts: [{}]\n"), "a contract has a \"file\" or a \"document\""));
  CHECK(has(refused("engines: [{name: e, url: x, kernel: k, checkpoint: {}}]\n"), "\"uri\""));
  CHECK(has(
      refused(
          "schedules: [{name: s, cron: '* * * * *', misfire: later, promotion: {model: m, engine: e}}]\n"),
      "skip, run_once"));
  CHECK(has(refused("recipes: [{model: m, captures: {numeric: {floor: {train: [a]}}}}]\n"),
            "a list of runs has two"));
  CHECK(has(refused("recipes: [{model: m, accept_undecidable: true}]\n"), "accept_undecidable"));
  // What the daemon would refuse whatever it has.
  CHECK(has(refused("recipes: [{model: m}]\n"), ":3:11: the recipe is empty"));
  CHECK(has(refused("recipes: [{model: m, kernels: {a b: {contract: c}}}]\n"), "a kernel's name"));
  const std::string schedule = "schedules: [{name: s, promotion: {model: m, engine: e}, ";
  CHECK(has(refused(schedule + "cron: '61 * * * *'}]\n"), ":3:63: "));
  CHECK(has(refused(schedule + "cron: '1 * * * *', timezone: Europe/Berlni}]\n"), "Europe/Berlni"));
  CHECK(has(
      refused("schedules: [{name: s, cron: '1 * * * *', promotion: {model: m, engine: e, recipe: {digest: "
              "sha256:00}}}]\n"),
      "64 hexadecimal digits"));
  const std::string engine = "engines: [{name: e, kernel: k, checkpoint: w, url: ";
  CHECK(has(refused(engine + "'ftp://e:1'}]\n"), ":3:52: "));
  CHECK(has(refused(engine + "'http://e:1', key_header: X-Key}]\n"), "give key_file too"));
  CHECK(has(refused(engine + "'http://e:1', key_header: Host, key_file: k}]\n"),
            "'Host' cannot be the header"));
  CHECK(has(refused(engine + "'http://e:1', ca_file: ca}]\n"), "https://"));
  const Ran ran = daemon.run({"apply", "-f", file_with("kind: Setup\n")});
  CHECK(has(ran.err, "\"apiVersion\" of a setup file is missing"));
}

TEST_CASE("a file that is named is read beside the setup file, and its faults have its name") {
  ScriptedDaemon daemon;
  const std::string file = file_with(std::string(kHead) + "kernels: [k.json, {file: bad.json}]\n");
  std::ofstream(folder_of(file) + "/k.json") << R"({"name": "k", "dtype": "f32"})";
  std::ofstream(folder_of(file) + "/bad.json") << R"({"nmae": "k2"})";
  const Ran ran = daemon.run({"apply", "-f", file});
  CHECK(ran.exit_code == 4);
  CHECK(has(ran.err, folder_of(file) + "/bad.json:1:1: "));
}

TEST_CASE("what is nowhere registered and what cannot be changed is refused before the first change") {
  ScriptedDaemon daemon;
  answer_changes(daemon);
  daemon.on("GET /v1/kernels/k", R"({"name":"k","document":{"name":"k","dtype":"bf16"}})");
  const Ran ran = daemon.run({"apply", "-f", file_with(std::string(kHead) + R"(kernels:
  - document: {name: k, dtype: f32}
engines:
  - {name: e, url: "http://127.0.0.1:1", kernel: lost, checkpoint: w}
recipes:
  - {model: gone, contract: none, kernels: {k9: {fallback_engine: f}}}
)")});
  CHECK(ran.exit_code == 4);
  CHECK(has(ran.err, ":4:5: kernel k is registered with other contents"));
  CHECK(has(ran.err, "dtype: \"bf16\" becomes \"f32\""));
  CHECK(has(ran.err, ":6:50: there is no kernel lost, neither in this file nor registered"));
  for (const char* name : {"contract none", "model gone", "kernel k9", "engine f"})
    CHECK_MESSAGE(has(ran.err, std::string("there is no ") + name), name);
  CHECK(changes_of(daemon).empty());
}

TEST_CASE("differences are told member by member") {
  const auto before = json::parse(R"({"a":{"b":1,"c":[1,2],"d":"x"},"e":null})");
  const auto after = json::parse(R"({"a":{"b":2,"c":[1,3],"f":true},"e":null})");
  CHECK(cli::differences_of(before, after) ==
        std::vector<std::string>{"a.b: 1 becomes 2", "a.c[2]: 2 becomes 3", "a.d: \"x\" is removed",
                                 "a.f: true is new"});
  CHECK(cli::differences_of(json::array({1}), json::array({1, 2})) ==
        std::vector<std::string>{"[1] becomes [1,2]"});
  CHECK(cli::differences_of(after, after).empty());
}

TEST_CASE("the key of an engine is compared as the file that it is") {
  ScriptedDaemon daemon;
  answer_changes(daemon);
  const std::string head = std::string(kHead) + "kernels: [{document: {name: k, dtype: f32}}]\n";
  const std::string engine =
      "engines: [{name: e, url: 'http://e:1', kernel: k, checkpoint: {digest: d}, key_file: ";
  daemon.on("GET /v1/kernels/k", R"({"name":"k","document":{"name":"k","dtype":"f32"}})");
  daemon.on("GET /v1/engines/e", R"({"name":"e","url":"http://e:1","kernel":"k","checkpoint":"d",
      "files_dir":"/files","key_file":"/files/a/key"})");
  for (const char* same : {"a/key", "./a/key", "/files/a/key"})
    CHECK_MESSAGE(
        daemon.run({"apply", "-f", file_with(head + engine + same + "}]\n"), "--dry-run"}).exit_code == 0,
        same);
  const Ran other = daemon.run({"apply", "-f", file_with(head + engine + "key}]\n"), "--dry-run"});
  CHECK(other.exit_code == 1);
  CHECK(has(other.out, "key_file: \"/files/a/key\" becomes \"key\""));
}

TEST_CASE("engines of one URL have one key: those of a file agree, and others are told of") {
  ScriptedDaemon daemon;
  answer_changes(daemon);
  const auto file = [](const char* keys) {
    return file_with(std::string(kHead) +
                     "kernels: [{document: {name: k, dtype: f32}}]\n"
                     "engines:\n"
                     "  - {name: e1, url: 'http://e:1', kernel: k, checkpoint: w, key_file: key}\n"
                     "  - {name: e2, url: 'http://e:1/v1', kernel: k, checkpoint: w" +
                     keys + "}\n");
  };
  const Ran refused = daemon.run({"apply", "-f", file("")});
  CHECK(refused.exit_code == 4);
  CHECK(has(refused.err, ":6:5: engines e1 and e2 share http://e:1"));
  CHECK(changes_of(daemon).empty());
  daemon.on("GET /v1/engines?limit=500",
            R"({"items":[{"name":"f1","url":"http://e:1"},{"name":"f2","url":"http://e:2"}],"next":null})");
  const Ran ran = daemon.run({"apply", "-f", file(", key_file: key"), "--dry-run"});
  CHECK(ran.exit_code == 1);
  CHECK(has(ran.out, "engine e2: engine f1, which shares http://e:1, gets this key and CA file too"));
  CHECK(!has(ran.out, "f2"));
}

TEST_CASE("what an engine cannot do is a warning that names the engine") {
  ScriptedDaemon daemon;
  answer_changes(daemon);
  daemon.on("POST /v1/engines",
            R"({"name":"e","abilities":{"notes":["POST /v1/chat/completions answered 404"]}})", 201);
  const Ran ran = daemon.run({"apply", "-f", file_with(kSetup)});
  CHECK(ran.exit_code == 0);
  CHECK(has(ran.err, "warning: engine e: POST /v1/chat/completions answered 404; what an engine cannot do"));
}
