#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "scripted_daemon.hpp"

using namespace driftgate;
using cli::test::file_with;
using cli::test::has;
using cli::test::Ran;
using cli::test::ScriptedDaemon;
using nlohmann::json;

namespace {

constexpr const char* kRecipe =
    R"({"model":"m","revision":4,"digest":"sha256:d","set_by":"rita","set_us":1800000000000000,
  "recipe":{"contract":"c","captures":{"numeric":{"train":"/a.safetensors","inf":{"adapter":"x"}}}}})";

std::string folder_of(const std::string& file) {
  return file.substr(0, file.rfind('/'));
}

}  // namespace

TEST_CASE("a recipe is shown as a file that can be set again") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/models/m/recipe", kRecipe);
  const Ran shown = daemon.run({"recipe", "show", "m"});
  CHECK(shown.exit_code == 0);
  CHECK(has(shown.out, "# recipe of m, revision 4, set by rita at 2027-01-15 08:00:00 UTC\n# sha256:d\n"));
  daemon.on("PUT /v1/models/m/recipe", kRecipe);
  CHECK(daemon.run({"recipe", "set", "m", "--file", file_with(shown.out)}).exit_code == 0);
  CHECK(json::parse(daemon.requests().back().body) == json::parse(kRecipe)["recipe"]);
  CHECK(daemon.run({"recipe", "show", "none"}).exit_code == 4);
}

TEST_CASE(
    "a recipe is set at the revision that was read, the first one without, with paths of its file's folder") {
  ScriptedDaemon daemon;
  const std::string file =
      file_with("contract: c\ncaptures: {slice: {corpus: data/slice.jsonl, floor: null}}\n");
  daemon.on("PUT /v1/models/m/recipe",
            R"({"model":"m","revision":1,"digest":"sha256:d","recipe":{},"warnings":["no capture"]})", 201);
  const Ran first = daemon.run({"recipe", "set", "m", "--file", file});
  CHECK(first.exit_code == 0);
  CHECK(has(first.out, "the recipe of m has revision 1 now (sha256:d)"));
  CHECK(has(first.err, "warning: no capture"));
  CHECK_FALSE(daemon.requests().back().header("If-Match").has_value());
  const json sent = json::parse(daemon.requests().back().body);
  CHECK(sent["captures"]["slice"]["corpus"] == folder_of(file) + "/data/slice.jsonl");
  CHECK(sent["captures"]["slice"]["floor"].is_null());
  daemon.on("GET /v1/models/m/recipe", kRecipe);
  CHECK(daemon.run({"recipe", "set", "m", "--file", file}).exit_code == 0);
  CHECK(daemon.requests().back().header("If-Match") == "\"4\"");
}

TEST_CASE("a recipe with faults is refused before anything is sent") {
  ScriptedDaemon daemon;
  const std::string file = file_with("contarct: c\ncaptures:\n  numeric: {corpsu: x}\n");
  const Ran ran = daemon.run({"recipe", "set", "m", "--file", file});
  CHECK(ran.exit_code == 4);
  CHECK(has(ran.err, ":1:1: "));
  CHECK(has(ran.err, "did you mean \"contract\"?"));
  CHECK(has(ran.err, ":3:13: "));
  CHECK(has(ran.err, "did you mean \"corpus\"?"));
  CHECK(daemon.requests().empty());
  CHECK(daemon.run({"recipe", "set", "m", "--file", "/nowhere/recipe.yaml"}).exit_code == 74);
}

TEST_CASE("a recipe is deleted at the revision that was read") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/models/m/recipe", kRecipe);
  daemon.on("DELETE /v1/models/m/recipe", "", 204);
  CHECK(daemon.run({"recipe", "delete", "m"}).out == "the recipe of m is deleted\n");
  CHECK(daemon.requests().back().header("If-Match") == "\"4\"");
  daemon.on("DELETE /v1/models/m/recipe", R"({"warnings":["the schedule nightly would be refused"]})");
  CHECK(has(daemon.run({"recipe", "delete", "m"}).err, "warning: the schedule nightly would be refused"));
}

TEST_CASE("promote names what it was told and leaves the rest to the recipe") {
  ScriptedDaemon daemon;
  daemon.on("POST /v1/promotions", R"({"id":"pr-1","state":"queued"})", 201);
  REQUIRE(daemon.run({"promote", "m", "--engine", "e"}).exit_code == 0);
  CHECK(json::parse(daemon.requests().back().body) == json{{"model", "m"}, {"engine", "e"}});
  REQUIRE(daemon.run({"promote", "m", "--engine", "e", "--no-recipe", "--numeric-adapter", "x"}).exit_code ==
          0);
  CHECK(json::parse(daemon.requests().back().body) ==
        json::parse(
            R"({"model":"m","engine":"e","recipe":false,"captures":{"numeric":{"inf":{"adapter":"x"}}}})"));
}

TEST_CASE("a plan says what came from the recipe") {
  ScriptedDaemon daemon;
  daemon.on("POST /v1/promotions?dry_run=true",
            R"({"model":"m","engine":"e","contract_name":"c","locks":{},"stages":[],
    "unfit":[],"undecidable":[],"rescoring":null,"request":{"model":"m","engine":"e","contract":"c",
    "captures":{"numeric":{"train":"/a","inf":{"adapter":"x"},"floor":{"train":[")" +
                std::string(100, 'a') + R"(","/b"]}}},
    "recipe":{"revision":4,"digest":"sha256:d","set_by":"rita",
              "parts":["/captures/numeric/floor/train","/captures/numeric/inf","/contract"]}}})");
  const Ran ran = daemon.run({"promote", "m", "--engine", "e", "--dry-run"});
  CHECK(ran.exit_code == 0);
  CHECK(has(ran.out,
            "From the recipe of m, revision 4 by rita (sha256:d):\n"
            "  /captures/numeric/floor/train: [\"" +
                std::string(100, 'a') +
                "\",\"/b\"]\n"
                "  /captures/numeric/inf: {\"adapter\":\"x\"}\n"
                "  /contract: c\n"));
}
