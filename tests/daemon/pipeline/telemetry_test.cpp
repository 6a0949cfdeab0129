#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;

namespace {

/// Three models, and the names of the commits of the newest tick.
struct Models {
  Harness h;
  std::vector<std::string> commits;

  Models() {
    h.abilities.models = {"m", "n", "o"};
    h.settings.telemetry_ms = 100;
    h.on_commit = [this](const std::string& what, bool done) {
      if (done) commits.push_back(what);
    };
    h.set_up();
    for (const char* name : {"n", "o"})
      REQUIRE(h.pipeline->create_model("olga", {name, "old", "the first version"}));
  }
  void serve(const std::vector<std::string>& names) {
    for (const auto& name : names) h.driver.serve(name, 20, h.clock.now_us_);
  }
  /// Time for one look at the telemetry.
  void tick() {
    commits.clear();
    h.clock.advance_ms(100);
    h.pipeline->tick();
  }
  /// The next COMMIT fails.
  void fail_next(ErrorCode code) {
    h.committer->fail_code = code;
    h.committer->fail_at = h.committer->count;
  }
  std::string canary() {
    const auto id = h.request();
    for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
    REQUIRE(h.driver.share("m") == 1'000);
    REQUIRE(h.driver.closed.empty());
    return id;
  }
  [[nodiscard]] std::size_t windows() { return h.pipeline->figures().windows; }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("windows of several models are stored in one transaction and acknowledged together") {
  Models of;
  of.serve({"m", "n", "o"});
  of.tick();
  CHECK(of.commits == Names{"telemetry windows"});
  CHECK(of.windows() == 3);
  CHECK(of.h.driver.closed.empty());
  of.serve({"m"});
  of.tick();
  CHECK(of.commits == Names{"consume window"});
}

TEST_CASE("two windows of one model are stored one after the other") {
  Models of;
  of.serve({"m", "n", "m"});
  of.tick();
  CHECK(of.commits == Names{"telemetry windows", "consume window"});
  CHECK(of.windows() == 3);
  CHECK(of.h.driver.closed.empty());
}

TEST_CASE("what a full disk refuses stays with the data plane and is taken later") {
  Models of;
  of.serve({"m", "n"});
  of.fail_next(ErrorCode::storage_full);
  of.tick();
  CHECK(of.commits.empty());
  CHECK(of.windows() == 0);
  CHECK(of.h.driver.closed.size() == 2);
  SUBCASE("by the same daemon") {
    of.tick();
  }
  SUBCASE("by the next one") {
    of.h.restart();
    of.tick();
  }
  CHECK(of.windows() == 2);
  CHECK(of.h.driver.closed.empty());
}

TEST_CASE("one change that cannot be stored does not keep the others of its transaction out") {
  Models of;
  of.serve({"m", "n", "o"});
  of.fail_next(ErrorCode::internal);
  of.tick();
  CHECK(of.commits == Names{"consume window", "consume window", "consume window"});
  CHECK(of.windows() == 3);
  CHECK(of.h.driver.closed.empty());
}

TEST_CASE(
    "a canary's decision and windows of models at rest are one transaction, each entry of its promotion") {
  Models of;
  const auto id = of.canary();
  of.serve({"m"});  // its first window, before which it spends its α
  of.tick();
  of.serve({"n", "m", "o"});
  of.tick();
  CHECK(of.commits == Names{"telemetry windows"});
  const auto points = of.h.view(id)["canary"]["exposed_requests"].get<int>();
  CHECK(points > 0);
  of.h.restart();
  CHECK(of.h.view(id)["canary"]["exposed_requests"] == points);
}

TEST_CASE("a model whose promotion is being reloaded holds up its own windows alone, over a restart too") {
  Models of;
  const auto id = of.canary();
  of.serve({"m"});
  of.fail_next(ErrorCode::storage_full);
  of.tick();
  REQUIRE(of.h.driver.closed.size() == 1);
  const auto seen = of.windows();
  of.serve({"n", "m", "o"});
  of.tick();
  CHECK(of.commits == Names{"telemetry windows"});
  CHECK(of.windows() == seen + 2);
  CHECK(of.h.driver.closed.size() == 2);  // those of m: what is stored of the others is acknowledged
  SUBCASE("the daemon goes on") {
    of.h.clock.advance_ms(2'000);
    of.tick();
    of.tick();
    CHECK(of.windows() == seen + 4);
  }
  SUBCASE("the daemon is killed") {
    of.h.restart();
    for (int i = 0; i < 5; ++i) of.tick();
    CHECK(of.windows() == 2);  // those of m alone: what was stored is not counted again
  }
  CHECK(of.h.driver.closed.empty());
  CHECK(of.h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("routes of all models are in force after a start with one transaction") {
  Models of;
  of.commits.clear();
  of.h.driver.routes.clear();
  of.h.restart();
  CHECK(std::ranges::count(of.commits, "record applied route") == 1);
  CHECK(of.h.pipeline->figures().route_agrees);
  CHECK(of.h.driver.routes.size() == 3);
}

TEST_CASE("a model that is held up for long leaves its windows with the data plane, and they come again") {
  Models of;
  const auto id = of.canary();
  of.serve({"m"});
  of.fail_next(ErrorCode::storage_full);
  of.tick();
  const auto seen = of.windows();
  for (int i = 0; i < 600; ++i) of.serve({"m"});
  of.tick();
  CHECK(of.windows() == seen);
  of.serve({"n", "m", "o"});
  of.tick();
  CHECK(of.commits == Names{"telemetry windows"});
  CHECK(of.windows() == seen + 2);
  CHECK(of.h.driver.closed.size() == 602);
  SUBCASE("the daemon goes on") {
    of.h.clock.advance_ms(2'000);
    for (int i = 0; i < 5; ++i) of.tick();
    CHECK(of.windows() == seen + 604);
  }
  SUBCASE("the daemon is killed") {
    of.h.restart();
    for (int i = 0; i < 5; ++i) of.tick();
    CHECK(of.windows() == 602);
  }
  CHECK(of.h.driver.closed.empty());
  CHECK(of.h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("a harmful canary is decided ahead of the windows of models at rest") {
  Models of;
  std::vector<std::string> others;
  for (int i = 0; i < 140; ++i) others.push_back("rest-" + std::to_string(i));
  of.h.abilities.models = others;
  of.h.add_engine("many", "k-train", 7);
  for (const auto& name : others)
    REQUIRE(of.h.pipeline->create_model("olga", {name, "many", "the first version"}));
  of.canary();
  std::size_t rolled_back = 0;
  for (int i = 0; i < 30 && of.h.driver.share("m") > 0; ++i) {
    of.serve(others);
    of.h.driver.serve("m", 200, of.h.clock.now_us_, [](std::uint64_t, const std::string&) { return true; });
    of.tick();
    rolled_back = of.commits.size();
  }
  REQUIRE(of.h.driver.share("m") == 0);
  REQUIRE(rolled_back > 2);
  CHECK(of.commits.front() != "telemetry windows");
  CHECK(std::ranges::count(of.commits, "telemetry windows") == 2);
  const auto first = std::ranges::find(of.commits, "telemetry windows");
  CHECK(std::ranges::find(of.commits, "record applied route") < first);
}
