#include "daemon/pipeline/read/standing.hpp"

#include <doctest/doctest.h>

#include "daemon/pipeline/read/shown.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using namespace driftgate::pipeline;
using store::PromotionState;

namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kMorning = 1'769'860'805 * kSecond;  // 2026-01-31 12:00:05 UTC

/// The harness's contract: steps of 10%, 50% (approval) and 100%, soak and bake of 3 s.
std::shared_ptr<const schema::Contract> contract() {
  const fakes::Harness harness;
  auto report = schema::parse_contract(harness.contract, "test");
  REQUIRE(report.contract);
  return std::make_shared<const schema::Contract>(std::move(*report.contract));
}

PromotionFacts facts_in(PromotionState state, const std::string& stage = {}) {
  PromotionFacts facts;
  facts.row.id = "pr-1";
  facts.row.model = "m";
  facts.row.requester = "pia";
  facts.row.state = state;
  facts.row.stage = stage;
  facts.row.attempt = stage.empty() ? 0 : 1;
  facts.row.reason = "the reason";
  facts.contract = contract();
  facts.model = store::ModelRow{.name = "m"};
  if (stage.empty()) return facts;
  RunFacts run{.row = {.key = {"pr-1", stage, 1}}};
  run.row.step_started_us = kMorning;
  facts.runs.push_back(run);
  return facts;
}

PromotionFacts canary_in(PromotionState state, std::int64_t step, std::uint32_t share_bp,
                         const std::string& waits_for) {
  auto facts = facts_in(state, "canary");
  auto& run = facts.runs.back();
  run.row.step = step;
  run.progress.phase = step < 3 ? "ramping" : "baking";
  run.progress.share_bp = share_bp;
  run.progress.waits_for = waits_for;
  run.progress.approval_digest = "sha256:basis";
  return facts;
}

std::string why(const PromotionFacts& facts) {
  return standing_of(facts).why;
}
std::string next(const PromotionFacts& facts) {
  return standing_of(facts).next;
}

}  // namespace

TEST_CASE("a queued promotion says what it waits for, and who can help") {
  auto facts = facts_in(PromotionState::queued);
  CHECK(why(facts) == "It is about to begin.");
  CHECK(next(facts) == "Offline-numeric comes first.");
  CHECK(standing_of(facts).needs.empty());
  facts.blackout = "0 18 * * fri 62h";
  CHECK(why(facts) == "It is about to begin.");
  facts.row.requester = "schedule/nightly";
  CHECK(why(facts) ==
        "A schedule asked for it, and it waits for the end of the blackout '0 18 * * fri 62h'.");
  CHECK(next(facts) == "It begins when the blackout is over.");
  facts.model->hold = "errors after the last release";
  CHECK(why(facts) == "It waits because model m is on hold: errors after the last release.");
  CHECK(next(facts) == "It begins when an operator lifts the hold.");
  const auto needs = standing_of(facts).needs;
  REQUIRE(needs.size() == 1);
  CHECK(needs[0] == Need{"lift_hold", "operator", "Lift the hold of model m when what caused it is mended."});
  facts.holder = "pr-0";
  CHECK(why(facts) == "It waits for promotion pr-0, which has model m now.");
  CHECK(standing_of(facts).needs.empty());
}

TEST_CASE("a stage of fixed data says how far its job is, and why it is tried again") {
  auto facts = facts_in(PromotionState::running, "offline-numeric");
  CHECK(why(facts) == "Offline-numeric is under way: its clauses are being decided.");
  CHECK(next(facts) == "When offline-numeric passes, statistical-slice begins.");
  facts.runs.back().job = RunningJob{"drift"};
  CHECK(why(facts) == "Offline-numeric is under way: the job drift runs.");
  facts.runs.back().job->progress = jobs::JobProgress{1'200, 4'000, "sequences", "reading"};
  CHECK(why(facts) ==
        "Offline-numeric is under way: the job drift runs, 1,200 of 4,000 sequences (reading).");
  auto failed = facts.runs.back();
  failed.row.state = store::StageRunState::error;
  failed.job.reset();
  facts.runs.insert(facts.runs.begin(), failed);
  facts.runs.back().row.key.attempt = 2;
  facts.runs.back().job.reset();
  facts.row.reason = "the disk is full";
  CHECK(why(facts) ==
        "Offline-numeric is under way: its clauses are being decided (attempt 2, since the one before "
        "failed: the disk "
        "is full).");
}

TEST_CASE("shadow-runtime says how many pairs it has of those that its clauses need") {
  auto facts = facts_in(PromotionState::running, "shadow-runtime");
  auto& run = facts.runs.back();
  CHECK(why(facts) ==
        "Shadow-runtime begins; the data plane has not confirmed that it mirrors requests yet.");
  run.progress.phase = "mirroring";
  run.progress.pairs = 57;
  run.row.planned_end_us = kMorning;
  CHECK(why(facts) ==
        "Shadow-runtime mirrors requests to the candidate, whose answers nobody sees: 57 of at least 100 "
        "pairs so far.");
  CHECK(next(facts) ==
        "Mirroring lasts until 2026-01-31 12:00:05 UTC at least; when shadow-runtime passes, the canary "
        "begins.");
  run.progress.phase = "rescoring";
  CHECK(why(facts) == "Shadow-runtime decides on the mirrored answers.");
}

TEST_CASE("a canary says at which share it is and what keeps it there") {
  auto facts = canary_in(PromotionState::running, 0, 1'000, "2 s of 3 s soak and 20 of 60 keys.");
  CHECK(why(facts) == "The canary is at step 1 of 3 (10%): 2 s of 3 s soak and 20 of 60 keys.");
  CHECK(next(facts).starts_with("Not before 2026-01-31 12:00:08 UTC it can go to 50%; at "));
  facts.runs.back().row.step = 1;
  CHECK(next(facts).find("it can go to 100%, which takes the approval of one person") != std::string::npos);
  facts.runs.back().progress.waits_for = "first.\nsecond.\nthird.";
  CHECK(why(facts) == "The canary is at step 2 of 3 (10%): first. There are 2 more such reasons.");
  facts.runs.back().progress.frozen = true;
  CHECK(why(facts).starts_with("The canary is frozen at step 2 of 3 (10%): first."));
  CHECK(next(facts).find("roll back") != std::string::npos);
  facts.runs.back().progress.phase = "applying";
  CHECK(why(facts) == "The canary goes to step 2 of 3 (10%), which the data plane has not confirmed yet.");
  facts = canary_in(PromotionState::running, 3, 10'000, "1 s of 3 s bake.");
  CHECK(why(facts) == "The canary is at the bake (100%): 1 s of 3 s bake.");
  CHECK(next(facts).starts_with("Not before 2026-01-31 12:00:08 UTC it succeeds"));
}

TEST_CASE("an approval says how many people are missing, who may not, and until when") {
  auto facts = canary_in(PromotionState::awaiting_approval, 1, 5'000, "");
  facts.quorum.needed = 2;
  facts.row.deadline_us = kMorning;
  CHECK(why(facts) ==
        "Every clause holds at step 2 of 3 (50%); to go to 100% it waits for the approval of 2 people "
        "other than pia.");
  facts.approvals.push_back({.who = "anna"});
  CHECK(why(facts).ends_with("other than pia; 1 of them approved: anna."));
  CHECK(next(facts) == "It expires at 2026-01-31 12:00:05 UTC unless it is approved.");
  const auto needs = standing_of(facts).needs;
  REQUIRE(needs.size() == 1);
  CHECK(needs[0] ==
        Need{"approve", "approver",
             "Read the evidence and approve that it may go to 100%: 1 of 2 people have, and pia may not."});
}

TEST_CASE("what is undecided says which clause, its figures and what would decide it") {
  auto facts = facts_in(PromotionState::inconclusive, "statistical-slice");
  facts.row.deadline_us = kMorning;
  facts.undecided = {{"statistical.kl", "language=de", "mean kl is 0.1 ± 0.3 and the limit is 0.2.",
                      "About 300 more sequences would decide."},
                     {"statistical.tv", "", "too few.", ""}};
  facts.to_waive = {{"statistical.kl", {}}, {"statistical.tv", {}}};
  CHECK(why(facts) ==
        "Statistical-slice could not decide: statistical.kl on language=de: mean kl is 0.1 ± 0.3 and the "
        "limit is 0.2. 1 more limit is undecided.");
  CHECK(next(facts).starts_with(
      "About 300 more sequences would decide. It expires at 2026-01-31 12:00:05 UTC"));
  auto needs = standing_of(facts).needs;
  REQUIRE(needs.size() == 2);
  CHECK(needs[0].action == "waive");
  CHECK(needs[0].scope == "approver");
  CHECK(needs[0].text ==
        "Waive statistical.kl, statistical.tv: it takes 2 people other than pia for each clause.");
  CHECK(needs[1].action == "resume");
  facts.to_waive[0].given = {{.who = "anna"}, {.who = "bob"}};
  CHECK(standing_of(facts).needs[0].text.starts_with("Waive statistical.tv:"));
  auto canary = canary_in(PromotionState::inconclusive, 0, 0, "");
  CHECK(standing_of(canary).needs.size() == 1);
  CHECK(why(canary) == "The reason.");
}

TEST_CASE("what waits for the data plane, and what has ended, says so") {
  auto facts = canary_in(PromotionState::rolling_back, 1, 0, "");
  facts.row.resume_state = PromotionState::rejected;
  CHECK(why(facts) ==
        "It is being withdrawn; the data plane has not confirmed 0% for the candidate yet: the reason.");
  CHECK(next(facts) == "It ends as rejected when that is confirmed.");
  CHECK(standing_of(facts).needs.empty());
  facts.row.state = PromotionState::finalizing;
  CHECK(next(facts) == "It succeeds when that is confirmed.");
  facts.row.state = PromotionState::paused;
  facts.row.deadline_us = kMorning;
  CHECK(why(facts).starts_with("It is paused at step 2 of 3 (0%)"));
  CHECK(standing_of(facts).needs.at(0).action == "resume");
  facts.row.state = PromotionState::rejected;
  facts.model->hold = "the reason";
  facts.model->hold_promotion = "pr-1";
  CHECK(why(facts) == "It was rejected: the reason.");
  CHECK(next(facts) == "Model m is on hold because of it: nothing begins until an operator lifts the hold.");
  facts.model->hold_promotion = "pr-0";
  CHECK(next(facts).empty());
  facts.row.state = PromotionState::aborted;
  facts.row.reason = "aborted";
  CHECK(why(facts) == "It was aborted.");
  facts.row.state = PromotionState::succeeded;
  facts.row.traffic = store::Traffic::reverted;
  CHECK(why(facts).starts_with("It succeeded and was rolled back later"));
}

TEST_CASE("a sentence is one line of bounded length") {
  CHECK(sentence("two\nlines") == "Two lines.");
  CHECK(sentence("") == "");
  CHECK(sentence("done!") == "Done!");
  CHECK(sentence(std::string(5'000, 'x')).size() < 700);
}

TEST_CASE("the digest of what is shown changes with what a person decides on, and with nothing else") {
  const auto facts = canary_in(PromotionState::awaiting_approval, 1, 5'000, "waits");
  const auto digest = evidence_shown(facts);
  CHECK(digest.starts_with("sha256:"));
  auto same = facts;
  same.runs.back().progress.waits_for = "waits longer";
  same.row.updated_us = 9;
  same.share_bp = 4;
  same.approvals.push_back({.who = "anna"});
  CHECK(evidence_shown(same) == digest);
  const auto changed = [&](auto change) {
    auto other = facts;
    change(other);
    return evidence_shown(other) != digest;
  };
  CHECK(changed([](auto& one) { one.row.state = PromotionState::running; }));
  CHECK(changed([](auto& one) { one.row.attempt = 2; }));
  CHECK(changed([](auto& one) { one.row.traffic = store::Traffic::live; }));
  CHECK(changed([](auto& one) { one.runs.back().row.step = 2; }));
  CHECK(changed([](auto& one) { one.runs.back().counts["pass"] = 1; }));
  CHECK(changed(
      [](auto& one) { one.not_passed.push_back({.clause = "runtime.errors", .verdict = "violated"}); }));
  CHECK(changed([](auto& one) { one.runs.back().progress.approval_digest = "sha256:other"; }));
  CHECK(changed([](auto& one) { one.runs.back().progress.share_bp = 2'500; }));
  CHECK(changed([](auto& one) { one.runs.back().progress.frozen = true; }));
  CHECK_FALSE(changed([](auto& one) { one.row.reason = "another"; }));
  for (const auto state : {PromotionState::paused, PromotionState::inconclusive}) {
    const auto waiting = canary_in(state, 1, 5'000, "");
    auto again = waiting;
    again.row.reason = "another";
    CHECK(evidence_shown(again) != evidence_shown(waiting));
  }
}

TEST_CASE("a refused decision names the reason of a pause, a wanted share and a freeze that are new") {
  ShownBook book;
  auto facts = canary_in(PromotionState::paused, 1, 5'000, "");
  facts.share_bp = 5'000;
  book.note(facts);
  const auto shown = evidence_shown(facts);
  const auto message = [&](auto change) {
    auto later = facts;
    change(later);
    const auto refused = check_shown(later, shown, book);
    REQUIRE_FALSE(refused);
    return refused.error().message;
  };
  const auto paused = message([](auto& one) { one.row.reason = "the router was replaced"; });
  CHECK(
      paused.find("it was paused in canary (attempt 1) at step 2, with 50% of the traffic (the reason: The "
                  "reason.), now it is paused in canary (attempt 1) at step 2, with 50% of the traffic (the "
                  "reason: The router was replaced.)") != std::string::npos);
  CHECK(message([](auto& one) {
          one.runs.back().progress.frozen = true;
        }).find("at step 2, frozen, with 50%") != std::string::npos);
  CHECK(message([](auto& one) {
          one.runs.back().progress.share_bp = 2'500;
        }).find("with 50% of the traffic (25% is wanted)") != std::string::npos);
}

TEST_CASE("a decision on something older is refused with what has changed, as far as it is remembered") {
  ShownBook book;
  auto facts = canary_in(PromotionState::awaiting_approval, 1, 5'000, "");
  const auto shown = evidence_shown(facts);
  CHECK(check_shown(facts, "", book));
  CHECK(check_shown(facts, shown, book));
  auto later = facts;
  later.row.state = PromotionState::running;
  later.runs.back().row.step = 2;
  later.share_bp = 10'000;
  const auto unknown = check_shown(later, shown, book);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == schema::ErrorCode::conflict);
  CHECK(unknown.error().message.find(
            ": now it is running in canary (attempt 1) at step 3, with 100% of the traffic") !=
        std::string::npos);
  facts.share_bp = 5'000;
  book.note(facts);
  CHECK(check_shown(later, shown, book)
            .error()
            .message.find("it was awaiting_approval in canary (attempt 1) at step 2, with 50% of the "
                          "traffic, now it is running") != std::string::npos);
}
