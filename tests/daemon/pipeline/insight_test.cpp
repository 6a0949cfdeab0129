#include "daemon/pipeline/read/insight.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <latch>
#include <nlohmann/json.hpp>

#include "schema/contract/contract.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;
using schema::ErrorCode;

namespace {

json parsed(const schema::Result<pipeline::View>& view) {
  REQUIRE_MESSAGE(view.has_value(), (view ? "" : view.error().describe()));
  return json::parse(view->json);
}

json series_of(Harness& h, const std::string& id, const std::string& stage = {}, bool actors = false,
               std::int64_t points = 512) {
  const auto insight = pipeline::stored_insight(*h.store);
  return parsed(insight->series({.promotion = id, .stage = stage, .points = points, .actors = actors}));
}

/// The values of a member along the points, without repetitions.
std::vector<json> course(const json& points, const char* member) {
  std::vector<json> values;
  for (const auto& point : points)
    if (values.empty() || values.back() != point[member]) values.push_back(point[member]);
  return values;
}

const json& clause_of(const json& series, const std::string& clause, const std::string& limit_kind) {
  for (const auto& one : series["clauses"])
    if (one["clause"] == clause && one["limit_kind"] == limit_kind) return one;
  FAIL("no series of " << clause << ": " << series.dump(1));
  return series;
}

std::vector<std::string> texts(const json& series, const std::string& kind) {
  std::vector<std::string> found;
  for (const auto& mark : series["marks"])
    if (mark["kind"] == kind) found.push_back(mark["text"]);
  return found;
}

}  // namespace

TEST_CASE("a canary's series shows the ramp, each arm's requests and how every clause came to its verdict") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto series = series_of(h, id);
  CHECK(series["stage"] == "canary");
  CHECK(series["attempt"] == 1);
  const auto& points = series["points"];
  REQUIRE(points.size() > 9);
  CHECK(course(points, "share_bp") == std::vector<json>{1'000, 5'000, 9'900});
  CHECK(course(points, "step") == std::vector<json>{0, 1, 2, 3});
  CHECK(points[0]["phase"] == "ramping");
  CHECK(points.back()["phase"] == "baking");
  CHECK(points.back()["action"] == "finish");
  std::int64_t exposed = 0;
  for (const auto& point : points) exposed += point["requests"]["candidate"].get<std::int64_t>();
  CHECK(exposed >= points.back()["exposed_requests"].get<std::int64_t>());
  CHECK(points[0]["requests"]["incumbent"].get<int>() > 3 * points[0]["requests"]["candidate"].get<int>());
  CHECK(points[0]["latency"]["total_ms"]["incumbent"].size() == 3);

  const auto& errors = clause_of(series, "runtime.errors", "max");
  CHECK(errors["threshold"] == 0.2);
  CHECK(errors["rule"] == "e_value");
  CHECK(errors["e_harm_needed"].get<double>() > 100);
  CHECK(errors["points"].size() == points.size());
  const auto& last = errors["points"].back();
  CHECK(last["verdict"] == "pass");
  CHECK(last["e_proof"].get<double>() >= errors["e_proof_needed"].get<double>());
  CHECK(last["n"].get<int>() > errors["points"][0]["n"].get<int>());

  CHECK(texts(series, "route_applied") ==
        std::vector<std::string>{"share 0% → 10%", "share 10% → 50%", "share 50% → 99%", "share 99% → 0%"});
  CHECK(texts(series, "approval_given").size() == 1);
  REQUIRE(series["planned"].size() == 4);
  CHECK(series["planned"][1] ==
        json{{"step", 1}, {"share_bp", 5'000}, {"approval", true}, {"min_duration_ms", 3'000}, {"bake", false}});
  CHECK(series["planned"][3]["bake"] == true);
  CHECK(series["planned"][3]["share_bp"] == 9'900);
}

TEST_CASE("only those who may read the log see who did what and why") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto hidden = series_of(h, id);
  for (const auto& mark : hidden["marks"]) {
    CHECK(mark["actor"].is_null());
    CHECK(mark["text"].get<std::string>().find("read it") == std::string::npos);
  }
  const auto seen = series_of(h, id, "canary", true);
  const auto given = std::ranges::find_if(
      seen["marks"], [](const json& mark) { return mark["kind"] == "approval_given"; });
  REQUIRE(given != seen["marks"].end());
  CHECK((*given)["actor"] == "anna");
  CHECK((*given)["text"].get<std::string>().ends_with("read it"));
}

TEST_CASE("a shadow stage has a series of its own, and a shorter answer keeps the newest point") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto shadow = series_of(h, id, "shadow-runtime");
  CHECK(shadow["stage"] == "shadow-runtime");
  REQUIRE(shadow["points"].size() > 3);
  CHECK(shadow["points"].back()["pairs"].get<int>() > shadow["points"][0]["pairs"].get<int>());
  CHECK(shadow["clauses"].empty());
  for (const auto& mark : shadow["marks"]) CHECK(mark["kind"] != "approval_given");
  const auto whole = series_of(h, id);
  const auto brief = series_of(h, id, "canary", false, 3);
  REQUIRE(brief["points"].size() == 3);
  CHECK(brief["points"].back()["time_us"] == whole["points"].back()["time_us"]);
  const auto requests = [](const json& series) {
    std::int64_t sum = 0;
    for (const auto& point : series["points"]) sum += point["requests"]["incumbent"].get<std::int64_t>();
    return sum;
  };
  CHECK(requests(brief) == requests(whole));
}

TEST_CASE("of a running canary the newest points can be asked for alone") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto whole = series_of(h, id);
  const auto insight = pipeline::stored_insight(*h.store);
  const auto newest = parsed(insight->series({.promotion = id, .last = 2}));
  const auto size = whole["points"].size();
  CHECK(newest["points"] == json::array({whole["points"][size - 2], whole["points"][size - 1]}));
  REQUIRE(newest["clauses"].size() == whole["clauses"].size());
  CHECK(newest["clauses"][0]["points"].size() == 2);
  const auto& marks = whole["marks"];
  REQUIRE(newest["marks"].size() == 2);
  CHECK(newest["marks"][1]["seq"] == marks[marks.size() - 1]["seq"]);
  CHECK(parsed(insight->series({.promotion = id, .last = 513}))["points"] == whole["points"]);
  CHECK(insight->series({.promotion = id, .last = 514}).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("the point of a rollback is stored with it, and a restart leaves the series as it was") {
  Harness h;
  h.behaviour.fails_after = 60;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"rejected"}) == "rejected");
  const auto before = series_of(h, id);
  CHECK(before["points"].back()["action"] == "rollback");
  const auto& harm = clause_of(before, "runtime.errors", "max");
  CHECK(harm["points"].back()["verdict"] == "violated");
  CHECK(harm["points"].back()["e_value"].get<double>() >= harm["e_harm_needed"].get<double>());
  CHECK(before["points"].back()["failures"]["candidate"].get<int>() > 0);
  CHECK(texts(before, "hold_set").size() == 1);
  h.restart();
  CHECK(series_of(h, id) == before);
}

TEST_CASE("before any live stage there is nothing but the plan, and what does not exist is refused") {
  Harness h;
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"rejected"}) == "rejected");
  const auto series = series_of(h, id);
  CHECK(series["stage"].is_null());
  CHECK(series["points"].empty());
  CHECK(series["planned"].size() == 4);
  CHECK_FALSE(texts(series, "state_changed").empty());
  const auto insight = pipeline::stored_insight(*h.store);
  const auto refused = [&](pipeline::SeriesRequest request) { return insight->series(request).error().code; };
  CHECK(refused({.promotion = "pr-none"}) == ErrorCode::not_found);
  CHECK(refused({.promotion = id, .stage = "canary", .attempt = 2}) == ErrorCode::not_found);
  CHECK(refused({.promotion = id, .stage = "offline-numeric"}) == ErrorCode::invalid_argument);
  CHECK(refused({.promotion = id, .points = 0}) == ErrorCode::invalid_argument);
}

TEST_CASE("a stage's distribution without histograms counts the means of its sequences, by slice") {
  Harness h;
  h.behaviour.german_tv = 0.02;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto insight = pipeline::stored_insight(*h.store);
  const auto asked = [&](const std::string& stage, const std::string& metric, const std::string& slice) {
    return insight->distribution({.promotion = id, .stage = stage, .metric = metric, .slice = slice});
  };
  const auto corpus = parsed(asked("statistical-slice", "tv", ""));
  CHECK(corpus["rows"] == 1'600);
  CHECK(corpus["candidate"]["unit"] == "sequences");
  CHECK(corpus["candidate"]["edges"] == json({0.01, 0.02}));
  CHECK(corpus["candidate"]["cdf"] == json({0.75, 1.0}));
  CHECK(corpus["floors"] == json({{"train", nullptr}, {"inf", nullptr}}));
  const auto german = parsed(asked("statistical-slice", "tv", "language=de"));
  CHECK(german["sequences"] == 100);
  CHECK(german["candidate"]["edges"] == json::array({0.02}));
  CHECK(german["candidate"]["mean"].get<double>() == doctest::Approx(0.02));
  CHECK(asked("canary", "tv", "").error().code == ErrorCode::not_found);
  CHECK(asked("statistical-slice", "error_rate", "").error().code == ErrorCode::invalid_argument);
  CHECK(asked("statistical-slice", "tv", "language").error().code == ErrorCode::invalid_argument);
  CHECK(asked("statistical-slice", "tv", "language=xx").error().code == ErrorCode::not_found);
}

TEST_CASE("a contract is explained beside the text that it is printed as") {
  Harness h;
  h.set_up();
  const auto insight = pipeline::stored_insight(*h.store);
  const auto explained = parsed(insight->explain_contract("test"));
  const auto text = explained["yaml"].get<std::string>();
  CHECK(text.starts_with("apiVersion: driftgate/v1\nkind: KernelContract\nmetadata: {name: test}\n"));
  const auto again = schema::parse_contract(text, "again");
  REQUIRE(again.contract.has_value());
  CHECK(again.contract->digest == explained["digest"]);
  CHECK(explained["lint"]["valid"] == true);
  REQUIRE(explained["clauses"].size() == 5);
  const auto& tv = explained["clauses"][1];
  CHECK(tv["clause"] == "numerical.tv");
  CHECK(tv["family"] == "numerical");
  CHECK(tv["text"] == "sequence_mean of tv at most 0.1");
  CHECK(tv["needs"][0]["stage"] == "offline-numeric");
  CHECK(tv["needs"][0]["text"].get<std::string>().starts_with("needs at least "));
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.find("id: tv"); ++at) line += text[at] == '\n' ? 1 : 0;
  CHECK(tv["line"] == line);
  CHECK(explained["text"].get<std::string>().find("Samples needed to pass") != std::string::npos);
  CHECK(explained == parsed(insight->explain_contract(explained["digest"])));
  CHECK(insight->explain_contract("none").error().code == ErrorCode::not_found);
}

TEST_CASE("one contract is explained at a time, and nobody waits for it") {
  Harness h;
  h.set_up();
  bool refused = false;
  for (int round = 0; round < 100 && !refused; ++round) {  // until two requests meet
    const auto insight = pipeline::stored_insight(*h.store);
    std::latch both(2);
    const auto ask = [&] {
      both.arrive_and_wait();
      return insight->explain_contract("test");
    };
    auto other = std::async(std::launch::async, ask);
    const auto mine = ask();
    const auto theirs = other.get();
    CHECK((mine.has_value() || theirs.has_value()));
    for (const auto* answer : {&mine, &theirs}) {
      if (answer->has_value()) continue;
      refused = true;
      CHECK(answer->error().code == ErrorCode::unavailable);
      CHECK(answer->error().message.find("try again in a second") != std::string::npos);
    }
    CHECK(insight->explain_contract("test").has_value());
  }
  CHECK(refused);
}

TEST_CASE("two contracts are compared by what they demand") {
  Harness h;
  h.set_up();
  auto other = h.contract;
  const std::string limit = "metric: tv, aggregate: sequence_mean, max: 0.1}";
  REQUIRE(other.find(limit) != std::string::npos);
  other.replace(other.find(limit), limit.size(), "metric: tv, aggregate: sequence_mean, max: 0.3}");
  other.replace(other.find("name: test"), 10, "name: newer");
  REQUIRE(h.pipeline->register_contract("pia", other, "newer.yaml").has_value());
  const auto insight = pipeline::stored_insight(*h.store);
  const auto compared = parsed(insight->compare_contracts("test", "newer"));
  CHECK(compared["from"]["name"] == "test");
  CHECK(compared["to"]["name"] == "newer");
  REQUIRE(compared["changes"].size() == 1);
  CHECK(compared["changes"][0] == json{{"change", "looser"},
                                       {"where", "numerical.tv max"},
                                       {"text", "numerical.tv max: 0.1 → 0.3"},
                                       {"before", "0.1"},
                                       {"after", "0.3"}});
  CHECK(parsed(insight->compare_contracts("newer", "test"))["changes"][0]["change"] == "stricter");
  CHECK(parsed(insight->compare_contracts("test", "test"))["changes"].empty());
  CHECK(insight->compare_contracts("test", "none").error().code == ErrorCode::not_found);
}
