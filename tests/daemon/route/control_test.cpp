#include "daemon/route/control/control.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/route/control/control_server.hpp"
#include "daemon/route/control/router_driver.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/route/table/state_file.hpp"
#include "tests/daemon/route/sample_route.hpp"
#include "tests/daemon/route/temporary_folder.hpp"

using namespace driftgate::route;
using nlohmann::json;

namespace {

struct Bench {
  TemporaryFolder folder;
  RouterCore core;
  ControlEffects effects;

  Bench() : core(options(folder), "life") { REQUIRE(core.spool.prepare()); }
  static RouterOptions options(const TemporaryFolder& folder) {
    RouterOptions options;
    options.spool_dir = folder.at("spool");
    options.state_path = folder.at("state");
    options.control_path = folder.at("control");
    return options;
  }
  json ask(const json& request) { return json::parse(answer_control(core, request.dump(), effects)); }
};

}  // namespace

TEST_CASE("a route is applied, kept and read back") {
  Bench bench;
  auto route = sample_route();
  route.candidate_bp = 100;
  CHECK(bench.ask({{"op", "apply"}, {"route", to_json(route)}})["ok"] == true);
  const auto observed = bench.ask({{"op", "observe"}});
  CHECK(observed["routes"][0]["route"] == to_json(route));
  CHECK(observed["routes"][0]["reverted"] == false);
  route.epoch = 0;
  const auto stale = bench.ask({{"op", "apply"}, {"route", to_json(route)}});
  CHECK(stale["ok"] == false);
  CHECK(stale["error"]["code"] == "conflict");
}

namespace {

ModelRoute route_of(const std::string& model) {
  auto route = sample_route();
  route.model = model;
  return route;
}

json models_in(const json& answer) {
  json names = json::array();
  for (const auto& one : answer["routes"]) names.push_back(one["route"]["model"]);
  return names;
}

}  // namespace

TEST_CASE("many routes are applied together, and one that is refused keeps no other out") {
  Bench bench;
  auto refused = route_of("b");
  refused.candidate_bp = 20'000;
  json routes = json::array();
  for (const auto& route : {route_of("a"), refused, route_of("c")})
    routes.push_back({{"route", to_json(route)}});
  const auto answer = bench.ask({{"op", "apply_all"}, {"routes", routes}});
  CHECK(answer["ok"] == false);
  CHECK(answer["error"]["code"] == "invalid_argument");
  CHECK(models_in(bench.ask({{"op", "observe"}})) == json::array({"a", "c"}));
  const auto kept = load_state(bench.core.options.state_path);
  REQUIRE(kept);
  CHECK(kept->size() == 2);
  CHECK(bench.ask({{"op", "apply_all"}})["ok"] == false);
}

namespace {

/// A plane that holds what the table holds, and cannot reach engines with a key.
class FakePlane final : public SteeredPlane {
 public:
  explicit FakePlane(std::vector<std::string>& settled) : settled_(settled) {}
  [[nodiscard]] Capabilities capabilities() const override { return {.plane = "fake"}; }
  [[nodiscard]] bool places() const override { return true; }
  driftgate::schema::Result<void> settle(const std::string& model) override {
    settled_.push_back(model);
    return {};
  }
  void wake() override {}
  [[nodiscard]] std::vector<ObservedRoute> held(std::vector<ObservedRoute> routes) const override {
    return routes;
  }
  [[nodiscard]] bool may_expose() const override { return true; }
  [[nodiscard]] const std::string& secret() const override { return secret_; }
  [[nodiscard]] std::string fault() const override { return {}; }

 private:
  std::vector<std::string>& settled_;
  const std::string secret_;
};

}  // namespace

TEST_CASE("a plane is waited for once for many routes: the control socket answers nobody meanwhile") {
  Bench bench;
  std::vector<std::string> settled;
  bench.core.plane = std::make_unique<FakePlane>(settled);
  json routes = json::array();
  for (const char* model : {"a", "b", "c", "d", "e", "f", "g", "h"})
    routes.push_back({{"route", to_json(route_of(model))}});
  CHECK(bench.ask({{"op", "apply_all"}, {"routes", routes}})["ok"] == true);
  CHECK(settled == std::vector<std::string>{"h"});
  CHECK(bench.ask({{"op", "observe"}})["routes"].size() == 8);
  CHECK(bench.ask({{"op", "apply"}, {"route", to_json(route_of("a"))}})["ok"] == true);
  CHECK(settled == std::vector<std::string>{"h", "a"});
}

TEST_CASE("a router that can show engines no keys gets the routes of the others, and that one is the error") {
  Bench bench;
  std::vector<std::string> settled;
  bench.core.plane = std::make_unique<FakePlane>(settled);
  const auto server = ControlServer::start(bench.core, [] {});
  REQUIRE(server);
  RouterDriver driver(bench.core.options.control_path);
  driver.ask_access_of([](const std::string& url) {
    driftgate::base::EngineAccess access;
    if (url == "http://127.0.0.1:99") access.key_file = "key";
    return driftgate::schema::Result<driftgate::base::EngineAccess>(access);
  });
  auto keyed = route_of("b");
  keyed.incumbent.url = "http://127.0.0.1:99";
  const auto applied = driver.apply_all({route_of("a"), keyed, route_of("c")});
  REQUIRE_FALSE(applied);
  CHECK(applied.error().code == driftgate::schema::ErrorCode::unsupported);
  CHECK(models_in(bench.ask({{"op", "observe"}})) == json::array({"a", "c"}));
}

TEST_CASE("routes are told of one model, from a model on, or not at all to who knows them") {
  Bench bench;
  for (const char* model : {"a", "b", "c"})
    REQUIRE(bench.ask({{"op", "apply"}, {"route", to_json(route_of(model))}})["ok"] == true);
  const auto all = bench.ask({{"op", "observe"}});
  CHECK(models_in(all) == json::array({"a", "b", "c"}));
  CHECK(models_in(bench.ask({{"op", "observe"}, {"model", "b"}})) == json::array({"b"}));
  CHECK(models_in(bench.ask({{"op", "observe"}, {"model", "d"}})) == json::array());
  CHECK(models_in(bench.ask({{"op", "observe"}, {"after", "a"}})) == json::array({"b", "c"}));
  const json known{{"op", "observe"}, {"unless", all["version"]}};
  CHECK(bench.ask(known)["unchanged"] == true);
  auto newer = route_of("b");
  newer.revision += 1;
  REQUIRE(bench.ask({{"op", "apply"}, {"route", to_json(newer)}})["ok"] == true);
  CHECK(models_in(bench.ask(known)) == json::array({"a", "b", "c"}));
}

TEST_CASE("a look at outages alone leaves out the engines that are well") {
  Bench bench;
  REQUIRE(bench.ask({{"op", "apply"}, {"route", to_json(sample_route())}})["ok"] == true);
  const auto engines = [&] {
    return bench.ask({{"op", "health"}, {"after", 0}, {"outages_alone", true}})["health"]["engines"];
  };
  CHECK(engines().empty());
  const auto engine = bench.core.routes.find("tiny")->engine(Served::candidate);
  for (int i = 0; i < 3; ++i) engine->failed("connect", Engine::Time::clock::now());
  REQUIRE(engines().size() == 1);
  CHECK(engines()[0]["url"] == sample_route().candidate->url);
}

TEST_CASE("windows of another life of the router are given from the first") {
  Bench bench;
  for (int i = 0; i < 3; ++i) bench.core.ledger.close_windows({{"m", "s"}}, 1'000, Ledger::Time{});
  CHECK(
      bench.ask({{"op", "windows"}, {"after", 2}, {"limit", 10}, {"router_id", "life"}})["windows"].size() ==
      1);
  CHECK(
      bench.ask({{"op", "windows"}, {"after", 2}, {"limit", 10}, {"router_id", "past"}})["windows"].size() ==
      3);
  CHECK(bench.ask({{"op", "acknowledge"}, {"number", 2}, {"router_id", "past"}})["ok"] == true);
  CHECK(bench.ask({{"op", "acknowledge"}, {"number", 2}})["ok"] == true);
  CHECK(bench.ask({{"op", "windows"}, {"after", 2}, {"limit", 10}})["windows"].size() == 3);
  CHECK(bench.ask({{"op", "acknowledge"}, {"number", 2}, {"router_id", "life"}})["ok"] == true);
  CHECK(bench.ask({{"op", "windows"}, {"after", 0}, {"limit", 10}})["windows"].size() == 1);
}

TEST_CASE("the health of engines is told, with what their breakers did since") {
  Bench bench;
  REQUIRE(bench.ask({{"op", "apply"}, {"route", to_json(sample_route())}})["ok"] == true);
  const auto engine = bench.core.routes.find("tiny")->engine(Served::candidate);
  for (int i = 0; i < 3; ++i) engine->failed("connect", Engine::Time::clock::now());
  engine->refused(Engine::Time::clock::now());
  const auto all = bench.ask({{"op", "health"}, {"after", 0}, {"router_id", "life"}})["health"];
  CHECK(all["router_id"] == "life");
  CHECK(all["engines"].size() == 3);
  REQUIRE(all["events"].size() == 2);
  CHECK(all["events"][0]["url"] == sample_route().candidate->url);
  const auto newer = bench.ask({{"op", "health"}, {"after", 1}, {"router_id", "life"}})["health"];
  CHECK(newer["events"].size() == 1);
  const auto of_another = bench.ask({{"op", "health"}, {"after", 1}, {"router_id", "past"}})["health"];
  CHECK(of_another["events"].size() == 2);
}

TEST_CASE("requests that make no sense are answered, not obeyed") {
  Bench bench;
  for (const char* text :
       {"", "x", "[]", "{}", R"({"op":1})", R"({"op":"dance"})", R"({"op":"apply"})",
        R"({"op":"apply","route":1})", R"({"op":"windows"})", R"({"op":"windows","after":-1,"limit":1})",
        R"({"op":"acknowledge"})", R"({"op":"health"})", R"({"op":"health","after":-1})",
        R"({"op":"spool_path"})", R"({"op":"spool_path","stage_key":"../x"})",
        R"({"op":"drop_spool","stage_key":""})"}) {
    CAPTURE(text);
    const auto answer = json::parse(answer_control(bench.core, text, bench.effects));
    CHECK(answer["ok"] == false);
    CHECK(answer["error"]["message"].get<std::string>().size() > 5);
  }
  CHECK_FALSE(bench.effects.stop);
  CHECK(bench.ask({{"op", "shutdown"}})["ok"] == true);
  CHECK(bench.effects.stop);
}

TEST_CASE("the mirror's budget is never overdrawn") {
  MirrorBudget budget;
  CHECK(budget.take("a", 60, 100));
  CHECK_FALSE(budget.take("a", 41, 100));
  CHECK(budget.take("a", 40, 100));
  CHECK_FALSE(budget.take("a", 1, 100));
  CHECK(budget.take("b", 1, 100));
  CHECK_FALSE(budget.take("a", 1, 50));
}

TEST_CASE("windows of single models are acknowledged above those of all") {
  Bench bench;
  bench.core.ledger.close_windows({{"a", "s"}, {"b", "s"}}, 1'000, Ledger::Time{});
  bench.core.ledger.close_windows({{"a", "s"}, {"b", "s"}}, 2'000, Ledger::Time{});
  json request{{"op", "acknowledge"}, {"router_id", "past"}, {"number", 0}};
  request["models"] = {{"b", 4}};
  CHECK(bench.ask(request)["ok"] == true);
  CHECK(bench.core.ledger.windows(0, 10).size() == 4);  // of another life
  request["router_id"] = "life";
  CHECK(bench.ask(request)["ok"] == true);
  const auto kept = bench.core.ledger.windows(0, 10);
  REQUIRE(kept.size() == 2);
  CHECK(kept[0]->model == "a");
  CHECK(kept[1]->model == "a");
}
