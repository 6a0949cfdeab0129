#include "daemon/pipeline/stages/live_points.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

using namespace driftgate;
using nlohmann::json;

namespace {

route::Observation seen(bool candidate, double ttft_ms, route::Outcome outcome = route::Outcome::ok) {
  route::Observation observation;
  observation.candidate = candidate;
  observation.outcome = outcome;
  observation.ttft_ms = ttft_ms;
  observation.total_ms = 10 * ttft_ms;
  return observation;
}

schema::ClauseVerdict verdict(const std::string& clause, schema::Severity severity = schema::Severity::hard) {
  schema::ClauseVerdict verdict;
  verdict.clause = clause;
  verdict.severity = severity;
  verdict.verdict = schema::Verdict::inconclusive;
  verdict.rule = schema::VerdictRule::e_value;
  verdict.limit_kind = "max";
  verdict.threshold = 0.05;
  verdict.alpha = 0.005;
  verdict.n = verdict.clusters = 12;
  verdict.estimate = 1.0 / 3;
  verdict.e_value = std::numeric_limits<double>::infinity();
  verdict.details = {{"e_harm_needed", 200}, {"e_proof", 1.5}, {"e_proof_needed", 40}};
  return verdict;
}

json body_of(const store::LivePoint& point) {
  return json::parse(point.body);
}

}  // namespace

TEST_CASE("a canary's point has the ramp, both arms' requests and latencies, and every test's figures") {
  pipeline::StageProgress progress;
  progress.phase = "ramping";
  progress.share_bp = 1'000;
  stages::CanaryDecision decision;
  decision.action = stages::CanaryAction::freeze;
  decision.keys_in_step = 9;
  decision.exposed_requests = 20;
  decision.exposed_keys = 15;
  decision.verdicts = {verdict("runtime.errors")};
  decision.verdicts[0].where = {{"language", "de"}};
  route::Window window;
  for (int i = 1; i <= 100; ++i) window.observations.push_back(seen(false, i));
  for (int i = 0; i < 5; ++i) window.observations.push_back(seen(true, 7.123456789));
  window.observations.push_back(seen(true, 9'999, route::Outcome::failed));
  window.observations.push_back(seen(true, std::numeric_limits<double>::quiet_NaN(), route::Outcome::excluded));
  const auto point = pipeline::canary_point(progress, 2, decision, &window, 77);
  CHECK(point.time_us == 77);
  CHECK(point.counts == store::LiveCounts{7, 100, 1, 0});
  const auto body = body_of(point);
  CAPTURE(point.body);
  CHECK(body["step"] == 2);
  CHECK(body["phase"] == "ramping");
  CHECK(body["share_bp"] == 1'000);
  CHECK(body["action"] == "freeze");
  CHECK(body["keys"] == 9);
  CHECK(body["ttft_ms"]["incumbent"] == json({50, 90, 99}));
  CHECK(body["ttft_ms"]["candidate"] == json({7.12346, 7.12346, 7.12346}));
  CHECK(body["total_ms"]["incumbent"] == json({500, 900, 990}));
  CHECK(body["clauses"] ==
        json::array({{12, 12, 0.333333, nullptr, nullptr, "Infinity", 1.5, "inconclusive"}}));
  const auto list = json::parse(point.clauses);
  REQUIRE(list.size() == 1);
  CHECK(list[0]["clause"] == "runtime.errors");
  CHECK(list[0]["slice"] == "language=de");
  CHECK(list[0]["rule"] == "e_value");
  CHECK(list[0]["threshold"] == 0.05);
  CHECK(list[0]["e_harm_needed"] == 200);
  CHECK(list[0]["e_proof_needed"] == 40);
}

TEST_CASE("a decision without a window has no requests and no latencies") {
  stages::CanaryDecision decision;
  const auto point = pipeline::canary_point({}, 0, decision, nullptr, 1);
  CHECK(point.counts == store::LiveCounts{});
  CHECK(point.clauses.empty());
  CHECK(body_of(point)["ttft_ms"] == json({{"candidate", nullptr}, {"incumbent", nullptr}}));
}

TEST_CASE("of too many tests those that are violated are kept first, then those of hard clauses") {
  stages::CanaryDecision decision;
  for (std::size_t i = 0; i < 2 * pipeline::kMaxLiveClauses; ++i) {
    decision.verdicts.push_back(
        verdict("runtime.c" + std::to_string(i), i % 2 == 0 ? schema::Severity::soft : schema::Severity::hard));
  }
  auto& last_soft = decision.verdicts[2 * pipeline::kMaxLiveClauses - 2];
  last_soft.verdict = schema::Verdict::violated;
  const auto point = pipeline::canary_point({}, 0, decision, nullptr, 1);
  const auto list = json::parse(point.clauses);
  REQUIRE(list.size() == pipeline::kMaxLiveClauses);
  CHECK(body_of(point)["clauses"].size() == pipeline::kMaxLiveClauses);
  CHECK(list[0]["clause"] == "runtime.c1");
  CHECK(list.back()["clause"] == last_soft.clause);
  std::size_t soft = 0;
  for (const auto& one : list) soft += one["severity"] == "soft" ? 1 : 0;
  CHECK(soft == 1);
}

TEST_CASE("a shadow stage's point counts the pairs") {
  pipeline::StageProgress progress;
  progress.phase = "mirroring";
  progress.pairs = 40;
  progress.mirror_failed = 2;
  route::Window window;
  window.observations = {seen(false, 1), seen(false, 2), seen(false, 3), seen(false, 4), seen(false, 5)};
  const auto point = pipeline::shadow_point(progress, window, 5);
  CHECK(point.counts == store::LiveCounts{0, 5, 0, 0});
  CHECK(body_of(point)["pairs"] == 40);
  CHECK(body_of(point)["mirror_failed"] == 2);
  CHECK(body_of(point)["ttft_ms"]["incumbent"] == json({3, 5, 5}));
  CHECK(body_of(point)["ttft_ms"]["candidate"].is_null());
}

TEST_CASE("a window with few answered requests of an arm keeps their number and none of their latencies") {
  route::Window window;
  for (int answered = 1; answered <= 5; ++answered) {
    window.observations.push_back(seen(false, answered));
    window.observations.push_back(seen(true, 9'999, route::Outcome::failed));
    const auto point = pipeline::shadow_point({}, window, 5);
    CHECK(point.counts == store::LiveCounts{answered, answered, answered, 0});
    const auto body = body_of(point);
    CHECK(body["ttft_ms"]["incumbent"].is_null() == (answered < 5));
    CHECK(body["total_ms"]["incumbent"].is_null() == (answered < 5));
    CHECK(body["ttft_ms"]["candidate"].is_null());
  }
}
