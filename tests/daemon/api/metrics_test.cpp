#include <doctest/doctest.h>

#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include "daemon/api/metrics_text.hpp"
#include "daemon/api/model_metrics.hpp"
#include "tests/daemon/api/fixture.hpp"

using namespace driftgate;
using driftgate::api::test::Fixture;

namespace {

pipeline::ServiceFigures sample() {
  pipeline::ServiceFigures figures;
  pipeline::ModelFigures model;
  model.standing = {
      .model = "a\"b\\c\nd", .share = 0.25, .agrees = true, .state = "running", .stage = "canary"};
  auto decision = std::make_shared<pipeline::DecisionFigures>();
  decision->stage = "canary";
  decision->time_us = 1'500'000;
  decision->clauses = {{.clause = "runtime.errors",
                        .slice = "language=de",
                        .kind = "max",
                        .verdict = schema::Verdict::violated,
                        .n = 12,
                        .value = 0.5,
                        .limit = 0.05,
                        .e_value = std::numeric_limits<double>::infinity()}};
  decision->left_out = 4;
  model.decision = decision;
  model.arms[1].ok = 3;
  for (const double ms : {5.0, 30.0, 1e9}) model.arms[1].total.add(ms);
  figures.live.models.push_back(model);
  figures.held = {"a\"b\\c\nd"};
  return figures;
}

bool has_line(const std::string& text, const std::string& line) {
  std::istringstream lines(text);
  for (std::string one; std::getline(lines, one);)
    if (one == line) return true;
  return false;
}

/// Whether the pipeline appends entries of this kind, which alone are counted. A new kind has no answer here,
/// and does not compile.
bool is_of_pipeline(schema::EvidenceKind kind) {
  using enum schema::EvidenceKind;
  switch (kind) {
    case token_granted:
    case token_revoked:
    case evidence_read:
    case evidence_redacted:
    case key_rotated:
    case epoch_changed:
    case schedule_set:
    case schedule_deleted:
    case recipe_set:
    case recipe_deleted:
      return false;
    case contract_registered:
    case kernel_registered:
    case engine_registered:
    case model_bootstrapped:
    case promotion_requested:
    case state_changed:
    case job_finished:
    case verdict_reached:
    case route_desired:
    case route_applied:
    case escalation_decided:
    case approval_given:
    case waiver_given:
    case hold_set:
    case hold_lifted:
    case schedule_fired:
    case schedule_skipped:
    case daemon_started:
    case clock_stepped:
    case block_set:
    case block_lifted:
    case router_replaced:
    case breaker_changed:
    case guard_armed:
    case guard_alarmed:
    case guard_decided:
    case guard_ended:
      return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a model's figures have its name escaped, and what is not known is absent") {
  const auto text = api::model_metrics(sample());
  const std::string model = R"(model="a\"b\\c\nd")";
  CHECK(has_line(text, "driftgate_model_candidate_share_ratio{" + model + "} 0.25"));
  CHECK(has_line(text, "driftgate_model_held{" + model + "} 1"));
  CHECK(has_line(text, "driftgate_model_promotion{" + model + R"(,stage="canary",state="running"} 1)"));
  const auto clause = model + R"(,stage="canary",clause="runtime.errors",slice="language=de",kind="max")";
  CHECK(has_line(text, "driftgate_clause_value{" + clause + "} 0.5"));
  CHECK(has_line(text, "driftgate_clause_e_value{" + clause + "} +Inf"));
  CHECK(has_line(text, "driftgate_clause_verdict{" + clause + R"(,verdict="violated"} 1)"));
  CHECK(has_line(text, "driftgate_decision_timestamp_seconds{" + model + R"(,stage="canary"} 1.5)"));
  CHECK(text.find("driftgate_clause_e_value_needed{") == std::string::npos);
  CHECK(text.find("driftgate_model_guard_alarming{") == std::string::npos);
  CHECK(has_line(api::event_metrics(sample()), "driftgate_clauses_left_out 4"));
}

TEST_CASE("buckets of a histogram are cumulative and end at +Inf, which is the count") {
  const auto text = api::model_metrics(sample());
  const std::string labels = R"(model="a\"b\\c\nd",arm="candidate")";
  CHECK(has_line(text, "driftgate_request_seconds_bucket{" + labels + R"(,le="0.01"} 1)"));
  CHECK(has_line(text, "driftgate_request_seconds_bucket{" + labels + R"(,le="0.05"} 2)"));
  CHECK(has_line(text, "driftgate_request_seconds_bucket{" + labels + R"(,le="300"} 2)"));
  CHECK(has_line(text, "driftgate_request_seconds_bucket{" + labels + R"(,le="+Inf"} 3)"));
  CHECK(has_line(text, "driftgate_request_seconds_count{" + labels + "} 3"));
}

TEST_CASE("series of an arm begin with zeros before its first request, a candidate's with its promotion") {
  auto figures = sample();
  const std::string labels = R"(model="a\"b\\c\nd",arm=)";
  CHECK(has_line(api::model_metrics(figures),
                 "driftgate_requests_total{" + labels + R"("incumbent",outcome="failed"} 0)"));
  CHECK(has_line(api::model_metrics(figures),
                 "driftgate_request_seconds_count{" + labels + R"("incumbent"} 0)"));
  auto& model = figures.live.models.front();
  model.arms[1] = {};
  CHECK(has_line(api::model_metrics(figures),
                 "driftgate_requests_total{" + labels + R"("candidate",outcome="failed"} 0)"));
  model.standing.state.clear();
  CHECK(api::model_metrics(figures).find(labels + R"("candidate")") == std::string::npos);
  model.arms[1].failed = 40;  // of a promotion that has ended
  CHECK(has_line(api::model_metrics(figures),
                 "driftgate_requests_total{" + labels + R"("candidate",outcome="failed"} 40)"));
}

TEST_CASE("the age of telemetry is told of models that need it, as old as the pipeline's news") {
  auto figures = sample();
  figures.seen_age_ms = 500;
  auto& standing = figures.live.models.front().standing;
  const std::string series = R"(driftgate_model_telemetry_age_seconds{model="a\"b\\c\nd"})";
  CHECK(api::model_metrics(figures).find(series) == std::string::npos);
  standing.watched = true;
  CHECK(has_line(api::model_metrics(figures), series + " -1"));
  standing.telemetry_age_ms = 2'000;
  CHECK(has_line(api::model_metrics(figures), series + " 2.5"));
}

TEST_CASE("values of labels are cut, and bytes that are no UTF-8 are replaced") {
  CHECK(api::label("x", "\xff") == "x=\"\xef\xbf\xbd\"");
  CHECK(api::label("x", std::string(1'000, 'a')).size() == api::kMaxLabelBytes + 4);
}

TEST_CASE("counters exist before they count, since a rate needs the zero") {
  const auto text = api::event_metrics({});
  CHECK(has_line(text, R"(driftgate_promotions_ended_total{outcome="rejected"} 0)"));
  CHECK(has_line(text, R"(driftgate_verdicts_total{stage="canary",verdict="violated"} 0)"));
  CHECK(has_line(text, R"(driftgate_schedule_skipped_total{why="refused"} 0)"));
  CHECK(has_line(text, R"(driftgate_evidence_entries_total{kind="guard_ended"} 0)"));
}

TEST_CASE("entries are counted of every kind that the pipeline appends, and of no other") {
  const auto text = api::event_metrics({});
  for (std::size_t i = 0; i < schema::kEvidenceKinds; ++i) {
    const auto kind = static_cast<schema::EvidenceKind>(i);
    const auto name = std::string(schema::to_string(kind));
    CAPTURE(name);
    const bool counted = has_line(text, "driftgate_evidence_entries_total{kind=\"" + name + "\"} 0");
    CHECK(counted == is_of_pipeline(kind));
  }
}

TEST_CASE("figures by model are for those who may read about models") {
  Fixture fixture;
  fixture.service.figures_now = sample();
  const std::string named = "driftgate_model_candidate_share_ratio{";
  const auto everybody = fixture.call("GET", "/metrics", "");
  CHECK(everybody.status == 200);
  CHECK(everybody.body.find(named) == std::string::npos);
  CHECK(everybody.body.find("driftgate_rollbacks_total 0\n") != std::string::npos);
  CHECK(has_line(everybody.body, "driftgate_scrape_authenticated 0"));
  const auto viewer = fixture.call("GET", "/metrics", "viewer").body;
  CHECK(viewer.find(named) != std::string::npos);
  CHECK(has_line(viewer, "driftgate_scrape_authenticated 1"));
  const auto unknown = fixture.call("GET", "/metrics", "", "", {{"Authorization", "Bearer wrong"}});
  CHECK(unknown.status == 200);
  CHECK(unknown.body.find(named) == std::string::npos);
  CHECK(has_line(unknown.body, "driftgate_scrape_authenticated 0"));
}
