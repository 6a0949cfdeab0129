#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/jobs/worker.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;

namespace {

bool has(const std::vector<std::string>& all, std::string_view part) {
  return std::ranges::any_of(all,
                             [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("a promotion that passes all four stages makes the candidate the incumbent") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  const auto seen = h.view(id);
  CHECK(seen["traffic"] == "live");
  CHECK(seen["stages"].size() == 4);
  for (const auto& stage : seen["stages"]) CHECK(stage["verdict"] == "pass");
  const auto model = h.model();
  CHECK(model["incumbent"]["engine"] == "new");
  CHECK(model["promotion"].is_null());
  CHECK(model["route"]["agree"] == true);
  CHECK(h.driver.routes.at("m").route.incumbent.url == "http://127.0.0.1:2");
  CHECK_FALSE(h.driver.routes.at("m").route.candidate.has_value());
  for (const char* kind : {"promotion_requested", "job_finished", "verdict_reached", "route_desired",
                           "route_applied", "approval_given", "escalation_decided"}) {
    CHECK_MESSAGE(has(h.kinds(id), kind), kind);
  }
}

TEST_CASE("the record says where a job ran, and drift jobs get the ranks and the sharing of the settings") {
  Harness h;
  h.settings.job_ranks = 4;
  h.settings.job_shard = "rows";
  h.runner.runs_at = {"slurm", "1235", "ended", "", "node[1-2]", {"1234", "1235"}};
  std::vector<jobs::JobSpec> specs;
  const auto make = h.runner.make;
  h.runner.make = [&](const jobs::JobSpec& spec, const std::string& where) {
    specs.push_back(spec);
    return make(spec, where);
  };
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto entries = h.entries(id, "job_finished");
  REQUIRE_FALSE(entries.empty());
  for (const auto& entry : entries) {
    CHECK(entry["body"]["runner"] == "slurm");
    CHECK(entry["body"]["slurm_jobs"] == nlohmann::json({"1234", "1235"}));
    CHECK(entry["body"]["nodes"] == "node[1-2]");
  }
  REQUIRE_FALSE(specs.empty());
  for (const auto& spec : specs) {
    const bool drift = spec.kind == jobs::JobKind::drift;
    CHECK(spec.ranks == (drift ? 4 : 1));
    if (drift) CHECK(jobs::drift_payload_from_json(spec.payload).value().shard == "rows");
  }
}

TEST_CASE("the candidate's share only grows by the contract's steps and keeps the holdback") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  std::vector<std::uint32_t> shares;
  for (const auto& route : h.driver.applied) {
    if (route.candidate && (shares.empty() || shares.back() != route.candidate_bp))
      shares.push_back(route.candidate_bp);
  }
  CHECK(shares == std::vector<std::uint32_t>{0, 1'000, 5'000, 9'900});
}

TEST_CASE("a violated numerical clause rejects before any exposure and sets no hold") {
  Harness h;
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  const auto id = h.request();
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  CHECK(h.view(id)["traffic"] == "never_exposed");
  CHECK(h.view(id)["stages"].size() == 1);
  CHECK(h.model()["hold"].is_null());
  CHECK(has(h.verdicts(id), "offline-numeric numerical.tv [] violated"));
  CHECK(h.view(id)["reason"].get<std::string>().find("numerical.tv") != std::string::npos);
}

TEST_CASE("a bad slice that the mean hides rejects, and the report names it") {
  Harness h;
  h.behaviour.german_tv = 0.4;
  h.set_up();
  const auto id = h.request();
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  CHECK(has(h.verdicts(id), "statistical-slice statistical.slice-tv [language=de] violated"));
  const auto report = h.pipeline->report(id, "statistical-slice");
  REQUIRE(report.has_value());
  CHECK(report->json.find("\"language\":\"de\"") != std::string::npos);
}

TEST_CASE("a candidate that fails mirrored requests is stopped in shadow and never exposed") {
  Harness h;
  h.behaviour.shadow_failures = 0.6;
  h.set_up();
  const auto id = h.request();
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  CHECK(h.view(id)["stage"] == "shadow-runtime");
  CHECK(h.view(id)["traffic"] == "never_exposed");
  CHECK(h.driver.share("m") == 0);
  CHECK(h.driver.routes.at("m").route.mirror_bp == 0);
}

TEST_CASE("shadow goes on until every clause has the pairs that it needs, and no longer than max_duration") {
  // Half of 200 requests a second are mirrored: 500 pairs at min_duration, and min_count asks for 100.
  const auto lasts = [](const std::string& max) {
    Harness h;
    const std::string limit = "max: 0.2}";
    h.contract.replace(h.contract.find("max_ratio: 1.5, " + limit), 16 + limit.size(), "max: " + max + "}");
    h.set_up();
    const auto id = h.request();
    int seconds = 0;
    for (int i = 0; i < 200; ++i) {
      const auto seen = h.view(id);
      const bool shadow = seen["stage"] == "shadow-runtime";
      if (!shadow && seconds > 0) break;
      if (shadow && h.driver.routes.at("m").route.mirror_bp > 0) ++seconds;
      h.second();
    }
    return seconds;
  };
  CHECK(lasts("0.2") <= 7);
  // 0.004 takes 872 pairs at α 0.0304: with the 500 of min_duration it could only be inconclusive.
  const int longer = lasts("0.004");
  CHECK(longer >= 9);
  CHECK(longer <= 12);
  // 0.0001 takes 34,921: max_duration ends it.
  const int longest = lasts("0.0001");
  CHECK(longest >= 60);
  CHECK(longest <= 63);
}

TEST_CASE("a candidate that begins to fail in the canary is rolled back to weight 0 and the model is held") {
  Harness h;
  h.behaviour.fails_after = 60;
  h.set_up();
  const auto id = h.request();
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  const auto seen = h.view(id);
  CHECK(seen["stage"] == "canary");
  CHECK(seen["traffic"] == "reverted");
  CHECK(seen["outcome"]["e_value"].get<double>() > 100);
  CHECK(seen["outcome"]["exposed_requests"].get<int>() > 0);
  CHECK(seen["outcome"].contains("first_failure_to_weight_zero_ms"));
  CHECK_FALSE(h.driver.routes.at("m").route.candidate.has_value());
  CHECK(h.model()["hold"].is_object());
  CHECK(h.model()["incumbent"]["engine"] == "old");
  CHECK(has(h.kinds(id), "hold_set"));

  const auto refused =
      h.pipeline->request_promotion("pia", *pipeline::parse_promotion_request(seen["request"].dump()));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::conflict);
  CHECK(refused.error().message.find("lift-hold") != std::string::npos);
  REQUIRE(h.pipeline->lift_hold("olga", "m", "the engine was repaired").has_value());
  CHECK(h.model()["hold"].is_null());
}

TEST_CASE("a capture that breaks a rule ends in errored with the rule's words and is not retried") {
  Harness h;
  h.behaviour.capture_error = "logits: ranges overlap";
  h.set_up();
  const auto id = h.request();
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "errored");
  CHECK(h.view(id)["reason"].get<std::string>().find("ranges overlap") != std::string::npos);
  CHECK(h.view(id)["stages"].size() == 1);
}

TEST_CASE("when the canary's telemetry falls silent the candidate gets no traffic any more") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 200 && h.driver.share("m") == 0; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  for (int i = 0; i < 12; ++i) {
    h.clock.advance_ms(1'000);
    h.pipeline->tick();
  }
  CHECK(h.view(id)["frozen"] == true);
  CHECK(h.driver.share("m") == 1'000);
  for (int i = 0; i < 12; ++i) {
    h.clock.advance_ms(1'000);
    h.pipeline->tick();
  }
  CHECK(h.state(id) == "errored");
  CHECK(h.driver.share("m") == 0);
}

TEST_CASE("the same captures under the same contract give the stored verdict and spend nothing") {
  Harness h;
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  const auto first = h.request();
  REQUIRE(h.run_until(first, {"rejected"}) == "rejected");
  const auto second = h.request();
  CHECK(h.run_until(second, {"rejected"}) == "rejected");
  const auto k = h.store->read([](store::Reader& reader) {
    return reader.one(store::Sql("count", "SELECT count(*) FROM spending"), {},
                      [](const store::Row& row) { return row.integer(0); });
  });
  CHECK(k.value().value() == 1);
}
