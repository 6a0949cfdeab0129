#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "daemon/pipeline/figures/live_figures.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;

namespace {

const pipeline::ModelFigures& of_m(const pipeline::ServiceFigures& figures) {
  const auto found =
      std::ranges::find(figures.live.models, "m", [](const auto& model) { return model.standing.model; });
  REQUIRE(found != figures.live.models.end());
  return *found;
}

schema::ClauseVerdict verdict(const std::string& clause, const std::string& kind) {
  schema::ClauseVerdict verdict;
  verdict.clause = clause;
  verdict.limit_kind = kind;
  verdict.verdict = schema::Verdict::inconclusive;
  verdict.n = 7;
  verdict.estimate = 0.25;
  verdict.threshold = 0.5;
  verdict.e_value = 3;
  verdict.details = {{"e_harm_needed", 500}};
  return verdict;
}

std::uint64_t count_of(const pipeline::LatencyFigures& figures) {
  return std::accumulate(figures.buckets.begin(), figures.buckets.end(), std::uint64_t{0});
}

}  // namespace

TEST_CASE("figures of a canary are those of its report, and its end is counted once") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  h.second();
  auto figures = h.pipeline->figures();
  CHECK(of_m(figures).standing.share == doctest::Approx(0.1));
  CHECK(of_m(figures).standing.stage == "canary");
  CHECK(of_m(figures).standing.watched);
  CHECK(of_m(figures).standing.telemetry_age_ms >= 0);
  REQUIRE(of_m(figures).decision);
  CHECK(of_m(figures).decision->stage == "canary");
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  h.second();
  figures = h.pipeline->figures();
  const auto report = nlohmann::json::parse(h.pipeline->report(id, "canary")->json);
  const auto& clauses = of_m(figures).decision->clauses;
  CHECK(of_m(figures).decision->left_out == 0);
  for (const auto& told : report["verdicts"]) {
    const auto found = std::ranges::find_if(clauses, [&](const pipeline::ClauseFigure& one) {
      return one.clause == told["clause"] && one.kind == told["limit_kind"] &&
             one.slice == schema::slice_text(told["where"].get<std::map<std::string, std::string>>());
    });
    REQUIRE(found != clauses.end());
    CHECK(found->n == told["n"].get<std::uint64_t>());
    CHECK(schema::to_string(found->verdict) == told["verdict"].get<std::string>());
  }
  CHECK(of_m(figures).standing.state.empty());
  CHECK_FALSE(of_m(figures).standing.watched);
  CHECK(of_m(figures).standing.share == 0);
  CHECK(figures.live.ended.at("succeeded") == 1);
  CHECK(figures.live.rollbacks == 0);
  CHECK(figures.live.entries.at("promotion_requested") == 1);
  CHECK(figures.live.verdicts.at({"canary", "pass"}) > 0);
  const auto& arms = of_m(figures).arms;
  CHECK(arms[1].ok > 0);
  CHECK(count_of(arms[1].total) == arms[1].ok);
}

TEST_CASE("a rollback is counted by model, and by outcome") {
  Harness h;
  h.behaviour.fails_after = 40;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  h.second();
  const auto figures = h.pipeline->figures();
  CHECK(figures.live.ended.at("rejected") == 1);
  CHECK(figures.live.rollbacks == 1);
  CHECK(of_m(figures).rollbacks == 1);
  CHECK(figures.held == std::vector<std::string>{"m"});
  const auto& clauses = of_m(figures).decision->clauses;
  CHECK(
      std::ranges::any_of(clauses, [](const auto& one) { return one.verdict == schema::Verdict::violated; }));
}

TEST_CASE("of too many tests those that matter are kept, and the others are counted") {
  std::vector<schema::ClauseVerdict> verdicts;
  for (std::size_t i = 0; i < 3 * pipeline::kMaxFigureClauses; ++i) {
    verdicts.push_back(verdict(fmt::format("runtime.c{}", i), "max"));
    verdicts.back().severity = schema::Severity::soft;
  }
  verdicts[50].severity = schema::Severity::hard;
  verdicts[70].verdict = schema::Verdict::violated;
  verdicts.push_back(verdicts[70]);  // twice: Prometheus refuses a scrape with a series twice
  const auto figures = pipeline::figures_of("canary", verdicts, 5);
  REQUIRE(figures->clauses.size() == pipeline::kMaxFigureClauses);
  CHECK(figures->clauses[0].clause == "runtime.c70");
  CHECK(figures->clauses[1].clause == "runtime.c50");
  CHECK(figures->left_out == 2 * pipeline::kMaxFigureClauses);
  CHECK(figures->clauses[1].e_needed == 500);
}

TEST_CASE("a limit that is a ratio and one that is not are two tests of a clause") {
  const auto figures = pipeline::figures_of(
      "canary", {verdict("runtime.errors", "max"), verdict("runtime.errors", "max_ratio")}, 5);
  REQUIRE(figures->clauses.size() == 2);
  CHECK(figures->clauses[1].kind == "max_ratio");
}

TEST_CASE("latencies fall into the first bucket that holds them") {
  pipeline::LatencyFigures figures;
  figures.add(10);
  figures.add(10.5);
  figures.add(1e9);
  figures.add(std::numeric_limits<double>::quiet_NaN());
  CHECK(figures.buckets.front() == 1);
  CHECK(figures.buckets[1] == 1);
  CHECK(figures.buckets.back() == 1);
  CHECK(count_of(figures) == 3);
  CHECK(figures.sum_s == doctest::Approx(1e6 + 0.0205));
}

TEST_CASE("models beyond the limit are counted and not shown") {
  pipeline::LiveFigures live;
  std::vector<pipeline::ModelStanding> models;
  for (std::size_t i = 0; i < pipeline::kMaxFigureModels + 3; ++i)
    models.push_back({.model = fmt::format("m{:05}", i)});
  live.stand(models, {}, 9);
  live.decided("m01002", pipeline::figures_of("canary", {verdict("runtime.errors", "max")}, 5));
  const auto seen = live.snapshot();
  CHECK(seen.models.size() == pipeline::kMaxFigureModels);
  CHECK(seen.models_left_out == 3);
  CHECK(seen.seen_us == 9);
}
