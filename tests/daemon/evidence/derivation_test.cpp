// What does not follow from the entries about a promotion, and which entry is named for it.
#include "daemon/evidence/verify/derivation.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "tests/daemon/evidence/promotion_log.hpp"

using namespace driftgate;
using namespace driftgate::evidence;
using namespace driftgate::evidence::testing;
using schema::EntryValue;
using schema::EvidenceKind;

namespace {

/// Entries that are followed without a log around them, with the faults that they come to.
struct Story {
  std::vector<std::string> faults;
  PromotionDerivation derivation{[this](std::int64_t seq, const std::string& what) {
    faults.push_back(std::to_string(seq) + ": " + what);
  }};
  std::int64_t next = 0;
  std::string at = "queued";

  std::int64_t add(EvidenceKind kind, const std::string& actor, Body body, const std::string& stage = {},
                   std::int64_t attempt = 1) {
    schema::Entry entry{.seq = next, .draft = {.time_us = 100 + next, .kind = kind, .actor = actor}};
    entry.draft.subject = {
        .model = "tiny", .promotion = "pr-1", .checkpoint = "sha256:ab", .contract = "sha256:c"};
    if (!stage.empty()) entry.draft.subject.stage = stage;
    if (!stage.empty()) entry.draft.subject.attempt = attempt;
    entry.draft.body = std::move(body);
    derivation.follow(entry);
    return next++;
  }
  void request() { add(EvidenceKind::promotion_requested, "bob", {{"candidate", "ve-b"}}); }
  void state(const std::string& to, const std::string& stage, const std::string& actor = "driftgate") {
    add(EvidenceKind::state_changed, actor, {{"from", at}, {"to", to}, {"stage", stage}, {"traffic", "live"}},
        stage);
    at = to;
  }
  void clauses(const std::string& stage, const std::vector<std::string>& verdicts) {
    for (const auto& verdict : verdicts)
      add(EvidenceKind::verdict_reached, "driftgate", clause_body(verdict), stage);
  }
  /// A stage's decision over `verdicts`, with members of its body replaced.
  std::int64_t decide(const std::string& stage, const std::vector<std::string>& verdicts,
                      const std::string& verdict, const Body& members = {}) {
    const auto first = next;
    clauses(stage, verdicts);
    auto body = stage_body(verdict, first, static_cast<std::int64_t>(verdicts.size()));
    for (const auto& [name, value] : members) {
      if (value.is_null()) {
        body.erase(name);
      } else {
        body[name] = value;
      }
    }
    return add(EvidenceKind::verdict_reached, "driftgate", std::move(body), stage);
  }
  void person(EvidenceKind kind, const std::string& who, const std::string& decision,
              EntryValue people_rule = 2) {
    Body body{{"decision", decision}, {"clause", "numerical.kl"}, {"evidence_digest", "sha256:r"}};
    if (!people_rule.is_null()) body["people_rule"] = std::move(people_rule);
    add(kind, who, std::move(body), "offline-numeric");
  }
  void pass_until(std::size_t stages) {
    request();
    for (std::size_t i = 0; i < stages; ++i) {
      state("running", kLadder[i]);
      decide(kLadder[i], {"pass"}, "pass");
    }
  }
  [[nodiscard]] std::string told() const {
    std::string text;
    for (const auto& fault : faults) text += fault + "\n";
    return text;
  }
  /// That there is one fault, with these words.
  void only(const std::string& words) const {
    CHECK_MESSAGE(faults.size() == 1, told());
    CHECK_MESSAGE(told().find(words) != std::string::npos, told());
  }
};

}  // namespace

TEST_CASE_FIXTURE(Story, "a promotion that passed each stage comes to its end without a fault") {
  pass_until(4);
  state("finalizing", "canary");
  CHECK(!derivation.has_ended());
  state("succeeded", "canary");
  CHECK_MESSAGE(faults.empty(), told());
  CHECK(derivation.has_ended());
  CHECK(derivation.ended_us() == 100 + next - 1);
  CHECK(derivation.traffic() == "live");
  CHECK(derivation.verdicts() == 4);
  REQUIRE(derivation.decisions().size() == 4);
  CHECK(derivation.decisions()[2].stage == "shadow-runtime");
  CHECK(derivation.named_digests() == std::set<std::string>{"sha256:00", "sha256:c", "sha256:r"});
}

TEST_CASE("a stage's verdict is the weightiest of its clauses, and another one is a fault") {
  struct Case {
    std::vector<std::string> clauses;
    const char* follows;
  };
  const Case all[] = {{{"pass", "pass"}, "pass"},
                      {{"pass", "inconclusive"}, "inconclusive"},
                      {{"inconclusive", "violated", "pass"}, "violated"},
                      {{}, "pass"}};
  for (const auto& [clauses, follows] : all) {
    for (const char* said : {"pass", "violated", "inconclusive", "error"}) {
      CAPTURE(said);
      Story story;
      story.request();
      const auto seq = story.decide("offline-numeric", clauses, said);
      if (std::string(said) == follows) {
        CHECK_MESSAGE(story.faults.empty(), story.told());
      } else {
        story.only(std::to_string(seq) + ": body/verdict of offline-numeric is " + said +
                   "; its clauses and its action give " + follows);
      }
    }
  }
}

TEST_CASE("the canary's action has its say in the verdict") {
  struct Case {
    std::vector<std::string> clauses;
    const char* action;
    bool ended;
    const char* follows;
  };
  const std::vector<std::string> good{"pass"}, bad{"violated"}, open{"inconclusive"};
  for (const Case& one :
       {Case{good, "failed", true, "error"}, Case{bad, "failed", true, "error"},
        Case{good, "revert", true, "error"}, Case{good, "advance", false, "inconclusive"},
        Case{good, "finish", true, "pass"}, Case{open, "finish", true, "inconclusive"},
        Case{bad, "finish", true, "violated"}, Case{good, "inconclusive", true, "inconclusive"},
        Case{bad, "rollback", true, "violated"}, Case{bad, "hold", false, "violated"},
        Case{open, "wait", false, "inconclusive"}}) {
    CAPTURE(one.action);
    CAPTURE(one.follows);
    Story story;
    story.request();
    story.decide("canary", one.clauses, one.follows, {{"action", one.action}, {"ended", one.ended}});
    CHECK_MESSAGE(story.faults.empty(), story.told());
    CHECK(story.derivation.decisions().size() == (one.ended ? 1 : 0));
  }
  for (const char* action : {"advance", "wait_approval"}) {
    Story story;
    story.request();
    story.decide("canary", open, "inconclusive", {{"action", action}, {"ended", false}});
    story.only("body/action " + std::string(action) + " needs every hard clause to pass");
  }
}

TEST_CASE("a stage's decision names exactly the verdicts before it") {
  const auto faulty = [](const Body& members, const std::string& words) {
    CAPTURE(words);
    Story story;
    story.request();
    story.decide("canary", {"pass", "pass"}, "pass", members);
    story.only(words);
  };
  faulty({{"first", 2}},
         "body/first and body/count name 2 verdicts from 2 on, the log has 2 for this decision");
  faulty({{"count", 1}}, "name 1 verdicts from 1 on, the log has 2");
  faulty({{"count", 3}}, "name 3 verdicts from 1 on, the log has 2");
  faulty({{"first", nullptr}}, "body/first or body/count of a stage's decision is missing");
  faulty({{"count", -1}}, "body/first or body/count of a stage's decision is missing");
  faulty({{"ended", nullptr}}, "body/verdict or body/ended of a stage's decision is missing");
  faulty({{"ended", "yes"}}, "body/verdict or body/ended of a stage's decision is missing");
  faulty({{"verdict", "passed"}}, "body/verdict or body/ended of a stage's decision is missing");
  faulty({{"action", 1}}, "body/action must be a text");
  faulty({{"report_digest", Body{}}}, "body/report_digest must be a text");
  faulty({{"rules", std::int64_t{schema::kCurrentRules} + 1}},
         "body/rules is " + std::to_string(schema::kCurrentRules + 1) +
             ", a version that this program does not know");
  faulty({{"rules", -1}}, "body/rules is 0, a version that this program does not know");
  faulty({{"rules", std::int64_t{1} << 33}}, "body/rules is 0, a version that this program does not know");
  faulty({{"rules", 1}}, "body/rules is not the version of the verdicts that it follows from");
}

TEST_CASE("a verdict that belongs to no decision of a stage is named") {
  const char* const kWords = "1: this verdict belongs to no decision of a stage";
  Story other_stage;
  other_stage.request();
  other_stage.clauses("offline-numeric", {"pass"});
  other_stage.decide("canary", {"pass"}, "pass");
  other_stage.only(kWords);
  Story between;
  between.request();
  between.clauses("offline-numeric", {"pass"});
  between.state("running", "offline-numeric");
  between.decide("offline-numeric", {"pass"}, "pass");
  between.only(kWords);
  Story attempts;
  attempts.request();
  attempts.add(EvidenceKind::verdict_reached, "driftgate", clause_body("pass"), "canary", 1);
  attempts.add(EvidenceKind::verdict_reached, "driftgate", clause_body("pass"), "canary", 2);
  attempts.only(kWords);
}

TEST_CASE("a clause's verdict follows from its numbers, and its slice from where it is") {
  const auto faulty = [](const Body& members, const std::string& words) {
    CAPTURE(words);
    Story story;
    story.request();
    auto body = clause_body("pass");
    for (const auto& [name, value] : members) {
      if (value.is_null()) body.erase(name);
      if (!value.is_null()) body[name] = value;
    }
    story.add(EvidenceKind::verdict_reached, "driftgate", std::move(body), "canary");
    story.only(words);
  };
  faulty({{"verdict", "violated"}},
         "1: body/verdict of numerical.kl is violated; by the rule limits its recorded numbers give pass");
  faulty({{"upper", EntryValue::measured(0.02)}}, "its recorded numbers give inconclusive");
  faulty({{"upper", nullptr}}, "upper");
  faulty({{"slice", "language=de"}}, "body/slice of numerical.kl is not what body/where says");
  faulty({{"slice", nullptr}}, "body/slice of numerical.kl is not what body/where says");
  faulty({{"slice", 1}}, "body/slice must be a text");
  faulty({{"severity", "grave"}}, "it records no verdict: body/severity must be hard or soft");
  faulty({{"role", "king"}}, "body/role is not a role of a slice");
  faulty({{"verdict", "maybe"}}, "body/verdict must be pass, violated, inconclusive or error");
  faulty({{"rule", "luck"}}, "body/rule is not a rule by which verdicts follow");
  faulty({{"n", -1}}, "body/n must be a whole number that is not negative");
  faulty({{"n", "400"}}, "body/n must be a whole number that is not negative");
  faulty({{"clusters", nullptr}}, "body/clusters is missing");
  faulty({{"alpha", 1}}, "body/alpha must be a measured number");
  faulty({{"alpha", Body{{"dec", "0.05"}}}}, "body/alpha must be a measured number");
  faulty({{"seed", ""}}, "body/seed must be a whole number written as a text");
  faulty({{"seed", "-1"}}, "body/seed must be a whole number written as a text");
  faulty({{"seed", "18446744073709551616"}}, "body/seed must be a whole number written as a text");
  faulty({{"approximate", 0}}, "body/approximate must be true or false");
  faulty({{"details", "none"}}, "body/details must be an object, or a list of {name, value}");
  faulty({{"details", EntryValue::Array{Body{{"name", "x"}}}}},
         "body/details must be a list of {name, value}");
  faulty({{"details", Body{{"x", 1}}}}, "body/details must hold measured numbers");
  faulty({{"where", Body{{"language", 1}}}}, "body/where must hold texts");
  faulty({{"where",
           EntryValue::Array{Body{{"name", "l"}, {"value", "de"}}, Body{{"name", "l"}, {"value", "fr"}}}}},
         "body/where must hold texts");
  faulty({{"rules", 0}}, "body/rules must be the number of a version");
  faulty({{"rules", "2"}}, "body/rules must be a whole number");
}

TEST_CASE("states follow each other, and a later stage needs the one before it") {
  Story jump;
  jump.request();
  jump.at = "paused";
  jump.state("running", "offline-numeric");
  jump.only("1: body/from is paused, and the promotion was queued");
  for (std::size_t stage = 1; stage < kLadder.size(); ++stage) {
    Story skipped;
    skipped.pass_until(stage - 1);
    skipped.state("running", kLadder[stage]);
    skipped.only("body/stage is " + kLadder[stage] + ", and " + kLadder[stage - 1] +
                 " was neither passed nor waived");
  }
  Story early;
  early.pass_until(3);
  early.state("succeeded", "shadow-runtime");
  early.only("body/to is succeeded, and canary was neither passed nor waived");
  Story again;  // a newer attempt of a stage that had passed takes the pass away
  again.pass_until(1);
  again.decide("offline-numeric", {"violated"}, "violated");
  again.state("running", "statistical-slice");
  again.only("offline-numeric was neither passed nor waived");
}

TEST_CASE("only a violated stage or a person ends a promotion as rejected") {
  for (const bool violated : {false, true}) {
    for (const char* actor : {"driftgate", "ada"}) {
      CAPTURE(violated);
      CAPTURE(actor);
      Story story;
      story.request();
      story.state("running", "offline-numeric");
      story.decide("offline-numeric", {violated ? "violated" : "inconclusive"},
                   violated ? "violated" : "inconclusive");
      story.state("rejected", "offline-numeric", actor);
      if (violated || std::string(actor) == "ada") {
        CHECK_MESSAGE(story.faults.empty(), story.told());
      } else {
        story.only("body/to is rejected, and neither was a stage violated nor did a person ask for it");
      }
    }
  }
}

TEST_CASE("an inconclusive stage is passed by the waivers of two people, who did not ask for it") {
  struct Case {
    const char* what;
    std::vector<std::string> people;
    EntryValue people_rule;
    bool passed;
    bool faulty;
  };
  for (const Case& one :
       {Case{"nobody", {}, 2, false, false}, Case{"one", {"cleo"}, 2, false, false},
        Case{"two", {"cleo", "dan"}, 2, true, false}, Case{"one twice", {"cleo", "cleo"}, 2, false, false},
        Case{"one under two names", {"cleo", "CLE0"}, 2, false, false},
        Case{"two names before identities", {"cleo", "CLE0"}, nullptr, true, false},
        Case{"the requester", {"cleo", "bob"}, 2, false, true},
        Case{"the requester under another name", {"cleo", "B0b"}, 2, false, true},
        Case{"another name before identities", {"cleo", "B0b"}, nullptr, true, false}}) {
    CAPTURE(one.what);
    Story story;
    story.request();
    story.state("running", "offline-numeric");
    story.decide("offline-numeric", {"inconclusive"}, "inconclusive");
    for (const auto& who : one.people)
      story.person(EvidenceKind::waiver_given, who, "waive", one.people_rule);
    CHECK(story.derivation.is_passed("offline-numeric") == one.passed);
    CHECK(story.faults.size() == (one.faulty ? 1 : 0));
    if (one.faulty) story.only("asked for the promotion and may not waive it");
  }
}

TEST_CASE_FIXTURE(Story, "waivers are of the evidence that was read, and none covers a violation") {
  request();
  state("running", "offline-numeric");
  for (const char* who : {"cleo", "dan"}) person(EvidenceKind::waiver_given, who, "waive");
  decide("offline-numeric", {"inconclusive"}, "inconclusive", {{"report_digest", "sha256:other"}});
  CHECK(!derivation.is_passed("offline-numeric"));
  decide("offline-numeric", {"violated"}, "violated");
  CHECK(!derivation.is_passed("offline-numeric"));
  decide("offline-numeric", {"inconclusive"}, "inconclusive");
  CHECK(derivation.is_passed("offline-numeric"));
  CHECK_MESSAGE(faults.empty(), told());
}

TEST_CASE(
    "who asked may not approve, by whatever name and through whatever schedule; refusals change nothing") {
  for (const char* who : {"bob", "BOB", "b0b"}) {
    CAPTURE(who);
    Story story;
    story.request();
    story.person(EvidenceKind::approval_given, who, "approve");
    story.only("actor " + std::string(who) + " asked for the promotion and may not approve it");
  }
  Story scheduled;
  scheduled.request();
  scheduled.add(EvidenceKind::schedule_fired, "driftgate", {{"owner", "olga"}});
  scheduled.person(EvidenceKind::approval_given, "0lga", "approve");
  scheduled.only("actor 0lga asked for the promotion");
  for (const char* who : {"rita", "R1TA"}) {
    Story by_recipe;
    by_recipe.add(EvidenceKind::promotion_requested, "bob",
                  {{"request", Body{{"recipe", Body{{"revision", 3}, {"set_by", "rita"}}}}}});
    by_recipe.person(EvidenceKind::approval_given, who, "approve");
    by_recipe.only("actor " + std::string(who) + " asked for the promotion and may not approve it");
  }
  Story refused;
  refused.request();
  refused.person(EvidenceKind::approval_given, "bob", "refused_self");
  refused.person(EvidenceKind::waiver_given, "bob", "refused_self");
  CHECK_MESSAGE(refused.faults.empty(), refused.told());
  Story untextual;
  untextual.request();
  untextual.add(EvidenceKind::approval_given, "cleo", {{"decision", true}});
  untextual.only("body/decision must be a text");
}

TEST_CASE("without the request nothing is held against what came before it was seen") {
  std::vector<std::string> faults;
  PromotionDerivation derivation([&](std::int64_t, const std::string& what) { faults.push_back(what); }, 40);
  const auto follow = [&](std::int64_t seq, Body body, EvidenceKind kind) {
    schema::Entry entry{.seq = seq, .draft = {.time_us = seq, .kind = kind, .actor = "driftgate"}};
    entry.draft.subject = {.stage = "canary", .attempt = 1};
    entry.draft.body = std::move(body);
    derivation.follow(entry);
  };
  follow(41, stage_body("violated", 38, 3), EvidenceKind::verdict_reached);
  follow(42, {{"from", "running"}, {"to", "finalizing"}, {"stage", "canary"}}, EvidenceKind::state_changed);
  follow(43, {{"from", "finalizing"}, {"to", "succeeded"}, {"stage", "canary"}}, EvidenceKind::state_changed);
  CHECK(faults.empty());
  CHECK(!derivation.whole());
  follow(44, stage_body("violated", 40, 3), EvidenceKind::verdict_reached);
  CHECK(faults.size() == 1);
}
