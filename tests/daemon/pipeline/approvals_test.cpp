#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/people/quorum.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

void edit(Harness& h, const std::string& from, const std::string& to) {
  const auto at = h.contract.find(from);
  REQUIRE(at != std::string::npos);
  h.contract.replace(at, from.size(), to);
}

std::string digest_of(const Harness& h, const std::string& id) {
  return h.view(id)["approval"]["evidence_digest"].get<std::string>();
}

ErrorCode refused(const schema::Result<pipeline::View>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().code;
}

std::vector<std::string> who(const json& given) {
  std::vector<std::string> names;
  for (const auto& one : given) names.push_back(one["who"]);
  return names;
}

store::ApprovalRow approval(const std::string& name, std::int64_t given_us) {
  return {.id = "ap-" + name,
          .stage = {"pr-1", "canary", 1},
          .step = 1,
          .who = name,
          .evidence_digest = "sha256:e",
          .given_us = given_us};
}

}  // namespace

TEST_CASE("only approvals of this step, this evidence and this age count") {
  store::StageRunRow run;
  run.key = {"pr-1", "canary", 1};
  run.step = 1;
  const pipeline::Quorum quorum{.needed = 2, .valid_ms = 10};
  auto rejected = approval("rod", 5'000);
  rejected.decision = store::Decision::reject;
  auto other_step = approval("sue", 5'000);
  other_step.step = 0;
  auto other_attempt = approval("tim", 5'000);
  other_attempt.stage.attempt = 2;
  auto other_evidence = approval("una", 5'000);
  other_evidence.evidence_digest = "sha256:f";
  const std::vector rows{
      approval("bea", 6'000), approval("al", 5'001), approval("old", 5'000), rejected, other_step,
      other_attempt,          other_evidence};
  const auto counted = pipeline::counted_approvals(rows, run, "sha256:e", quorum, 15'000);
  REQUIRE(counted.size() == 2);
  CHECK(counted[0].who == "al");
  CHECK(counted[1].who == "bea");
  CHECK(pipeline::counted_approvals(rows, run, "", quorum, 15'000).empty());
}

TEST_CASE("a step with a quorum goes on with the last of the different people that it needs") {
  Harness h;
  edit(h, "approval: true", "approval: true, approvals: 2");
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto digest = digest_of(h, id);
  CHECK(h.view(id)["approval"]["needed"] == 2);
  CHECK(h.view(id)["approval"]["given"].empty());
  REQUIRE(h.pipeline->approve("anna", id, digest, "read it").has_value());
  CHECK(h.state(id) == "awaiting_approval");
  CHECK(who(h.view(id)["approval"]["given"]) == std::vector<std::string>{"anna"});
  CHECK(h.view(id)["reason"] == "step 2 has 1 of 2 approvals");
  CHECK(refused(h.pipeline->approve("anna", id, digest, "once more")) == ErrorCode::conflict);
  h.restart();
  for (int i = 0; i < 3; ++i) h.second();
  CHECK(h.driver.share("m") == 5'000);
  CHECK(who(h.view(id)["approval"]["given"]) == std::vector<std::string>{"anna"});
  REQUIRE(h.pipeline->approve("bob", id, digest, "so did I").has_value());
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}, false) == "succeeded");
}

TEST_CASE("names that look alike are one person to an approval") {
  Harness h;
  edit(h, "approval: true", "approval: true, approvals: 2");
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto digest = digest_of(h, id);
  CHECK(refused(h.pipeline->approve("Pia", id, digest, "mine")) == ErrorCode::forbidden);
  REQUIRE(h.pipeline->approve("bob", id, digest, "read it").has_value());
  CHECK(refused(h.pipeline->approve("Bob", id, digest, "read it too")) == ErrorCode::conflict);
  CHECK(refused(h.pipeline->approve("b0b", id, digest, "and again")) == ErrorCode::conflict);
  CHECK(h.state(id) == "awaiting_approval");
  const store::StageRunRow run{.key = {"pr-1", "canary", 1}, .step = 1};
  const std::vector rows{approval("Both", 2), approval("both", 1), approval("b0th", 3), approval("anna", 4)};
  const auto counted = pipeline::counted_approvals(rows, run, "sha256:e", {.needed = 2, .valid_ms = 10}, 5);
  REQUIRE(counted.size() == 2);
  CHECK(counted[0].who == "both");
  CHECK(counted[1].who == "anna");
}

TEST_CASE("an approval that is older than the contract allows counts no more and may be given again") {
  Harness h;
  edit(h, "approval: true", "approval: true, approvals: 2");
  edit(h, "min_keys: 60", "min_keys: 60\n    approval_valid_for: 20s");
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto digest = digest_of(h, id);
  REQUIRE(h.pipeline->approve("anna", id, digest, "read it").has_value());
  for (int i = 0; i < 20; ++i) h.second();
  CHECK(h.view(id)["approval"]["given"].empty());
  REQUIRE(h.pipeline->approve("bob", id, digest, "late").has_value());
  CHECK(h.state(id) == "awaiting_approval");
  REQUIRE(h.pipeline->approve("anna", id, digest, "read it again").has_value());
  CHECK(h.state(id) == "running");
}

TEST_CASE("an approval that got too old before the step was left is asked for again") {
  Harness h;
  edit(h, "min_keys: 60", "min_keys: 60\n    approval_valid_for: 5s");
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto digest = digest_of(h, id);
  REQUIRE(h.pipeline->pause("olga", id, "lunch").has_value());
  REQUIRE(h.pipeline->resume("olga", id, "back").has_value());
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  CHECK(digest_of(h, id) == digest);
  h.driver.broken = true;  // nothing can be applied, so the approved step cannot be left
  (void)h.pipeline->approve("anna", id, digest, "read it");
  for (int i = 0; i < 8; ++i) h.second();
  CHECK(h.driver.share("m") == 5'000);
}

TEST_CASE("that somebody tried to approve their own promotion is recorded") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto before = h.view(id);
  CHECK(refused(h.pipeline->approve("pia", id, digest_of(h, id), "mine")) == ErrorCode::forbidden);
  const auto tried = h.entries(id, "approval_given");
  REQUIRE(tried.size() == 1);
  CHECK(tried[0]["actor"] == "pia");
  CHECK(tried[0]["body"]["decision"] == "refused_self");
  CHECK(tried[0]["body"]["evidence_digest"] == digest_of(h, id));
  CHECK_FALSE(tried[0]["body"].contains("approval"));
  CHECK(h.view(id) == before);
  REQUIRE(h.pipeline->approve("anna", id, digest_of(h, id), "read it").has_value());
  const auto given = h.entries(id, "approval_given");
  REQUIRE(given.size() == 2);
  CHECK(given[1]["body"]["decision"] == "approve");
  CHECK(given[1]["body"]["given"] == 1);
  CHECK(given[1]["body"]["needed"] == 1);
}
