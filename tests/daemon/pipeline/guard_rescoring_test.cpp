#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/store/promotions/guards.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;

namespace {

constexpr const char* kOld = "http://127.0.0.1:1";
constexpr const char* kNew = "http://127.0.0.1:2";

/// The contract with a guard that probes nothing: `rescoring` of it, and a policy beside the defaults.
void use_rescoring(Harness& h, const std::string& rescoring = "share: 0.001",
                   const std::string& policy = "  defaults: {hard: rollback, soft: freeze}") {
  const std::string before = "escalation:\n  defaults: {hard: rollback, soft: freeze}";
  const auto at = h.contract.find(before);
  REQUIRE(at != std::string::npos);
  h.contract.replace(at, before.size(),
                     "guard: {probes: {prompts: 0}, rescoring: {" + rescoring + "}}\nescalation:\n" + policy);
}

/// Kept answers without an end, of distinct keys. The ratios of their tokens are e^drift and e^−drift, so
/// that the estimate of their total variation is (1 − e^−drift)/2.
struct Answers {
  double drift = 0.05;
  std::uint64_t tokens = 50;      ///< that scoring one takes
  std::uint64_t bytes = 1'000;    ///< of the spool file
  bool away = false;              ///< an engine does not answer
  std::vector<std::string> read;  ///< path and offset of each look
  std::string reference, served;  ///< engines that were asked last

  void serve(Harness& h) {
    h.rescores = [this](const jobs::KeptAnswers& kept, const jobs::RescoreEngine& by,
                        const jobs::RescoreEngine& of) -> schema::Result<jobs::NextAnswer> {
      reference = by.base_url;
      served = of.base_url;
      read.push_back(kept.path + " " + std::to_string(kept.offset));
      jobs::NextAnswer next;
      next.file_bytes = bytes;
      next.offset = kept.offset;
      if (away) {
        next.failed = schema::Error{schema::ErrorCode::unavailable, "nobody listens", {}, nullptr};
        next.after_failed = kept.offset + 100;
        return next;
      }
      next.offset = kept.offset + 100;
      next.scored = scored(1'000'000 * read.size());
      CHECK(kept.wants(next.scored->key_hash));
      return next;
    };
  }
  [[nodiscard]] jobs::NextAnswer::Scored scored(std::uint64_t key) const {
    jobs::NextAnswer::Scored one{.key_hash = key, .slice = "language=en", .unfiltered = true, .scores = {}};
    for (int i = 0; i < 20; ++i) {
      one.scores.log_q.push_back(-2);
      one.scores.log_p.push_back(i % 2 == 0 ? -2 + drift : -2 - drift);
    }
    one.scores.tokens = tokens;
    return one;
  }
};

std::string promoted(Harness& h, const std::string& engine = "new") {
  const auto id = h.request(engine);
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  return id;
}

template <typename Done>
bool seconds_until(Harness& h, Done done, int limit = 200) {
  for (int i = 0; i < limit && !done(); ++i) h.second();
  return done();
}

const route::ModelRoute& route_of(const Harness& h) {
  return h.driver.routes.at("m").route;
}

json rescoring_of(const Harness& h) {
  return h.model()["guard"]["rescoring"];
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::vector<json> armed(const Harness& h) {
  auto entries = h.entries("", "guard_armed");
  std::erase_if(entries, [](const json& entry) { return entry["body"]["what"] != "rescoring"; });
  return entries;
}

}  // namespace

TEST_CASE(
    "after a promotion answers of a share of sticky keys are kept, and the log says what they are held "
    "against") {
  Harness h;
  use_rescoring(h, "share: 0.002, budget_tokens: 500000");
  h.set_up();
  const auto id = promoted(h);
  REQUIRE(seconds_until(h, [&] { return route_of(h).mirror_bp > 0; }));
  CHECK(route_of(h).mirror_bp == 20);
  CHECK(route_of(h).mirror_token_budget == 500'000);
  CHECK_FALSE(route_of(h).candidate.has_value());
  CHECK(route_of(h).incumbent.url == kNew);
  CHECK(route_of(h).stage_key == h.model()["guard"]["id"].get<std::string>() + "/rescoring/1");
  REQUIRE(armed(h).size() == 1);
  const auto body = armed(h)[0]["body"];
  CHECK(body["promotion"] == id);
  CHECK(body["figures"]["reference"] == "old");
  REQUIRE(body["figures"]["watches"].size() == 2);
  CHECK(body["figures"]["watches"][0]["clause"] == "numerical.tv");
  CHECK(body["figures"]["watches"][1]["clause"] == "statistical.slice-tv");
  CHECK(body["figures"]["watches"][1]["slice"] == "language=de");
  CHECK(rescoring_of(h)["reference"] == "old");
  CHECK(rescoring_of(h)["why_none"].is_null());
  const auto figures = h.pipeline->figures();
  CHECK(figures.guards_rescoring == 1);
  CHECK(figures.guards_not_rescoring == 0);
}

TEST_CASE("a contract that asks for no rescoring has no answers kept") {
  Harness h;
  const std::string before = "escalation:\n";
  h.contract.replace(h.contract.find(before), before.size(), "guard: {probes: {prompts: 0}}\nescalation:\n");
  Answers answers;
  answers.serve(h);
  h.set_up();
  promoted(h);
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(route_of(h).mirror_bp == 0);
  CHECK(rescoring_of(h).is_null());
  CHECK(answers.read.empty());
  CHECK(h.pipeline->figures().guards_not_rescoring == 0);
}

TEST_CASE("answers within the limits raise no alarm; beyond them the version before comes back") {
  Harness h;
  use_rescoring(h);
  Answers answers;
  answers.serve(h);
  h.set_up();
  promoted(h);
  REQUIRE(seconds_until(h, [&] { return rescoring_of(h)["answers"].get<int>() >= 50; }));
  CHECK(answers.reference == kOld);
  CHECK(answers.served == kNew);
  CHECK(h.entries("", "guard_alarmed").empty());
  CHECK(rescoring_of(h)["tokens_of_day"].get<int>() >= 2'500);
  answers.drift = 0.5;
  REQUIRE(seconds_until(h, [&] { return route_of(h).incumbent.url == kOld; }));
  const auto alarms = h.entries("", "guard_alarmed");
  REQUIRE(alarms.size() == 1);
  CHECK(alarms[0]["body"]["what"] == "rescoring");
  CHECK(alarms[0]["body"]["clause"] == "numerical.tv");
  CHECK(alarms[0]["body"]["ordered"] == "rollback");
  CHECK(alarms[0]["body"]["figures"]["verdict"] == "violated");
  const auto decided = h.entries("", "guard_decided");
  REQUIRE(decided.size() == 1);
  CHECK(decided[0]["body"]["action"] == "rollback");
  CHECK(h.model()["hold"].is_object());
  CHECK(route_of(h).mirror_bp == 0);
  const auto kept = h.model()["guard"]["id"].get<std::string>() + "/rescoring/1";
  CHECK(std::ranges::find(h.driver.dropped, kept) != h.driver.dropped.end());
}

TEST_CASE("restarts change no decision, and no answer counts twice") {
  const auto answers_until_alarm = [](bool restarts) {
    Harness h;
    use_rescoring(h, "share: 0.001",
                  "  rules: [{match: \"numerical.*\", stage: guard, action: notify}]\n"
                  "  defaults: {hard: rollback, soft: freeze}");
    Answers answers;
    answers.drift = 0.5;
    answers.serve(h);
    h.set_up();
    promoted(h);
    for (int i = 0; i < 200 && h.entries("", "guard_alarmed").empty(); ++i) {
      h.second();
      if (restarts && i % 3 == 0) h.restart();
    }
    REQUIRE(h.entries("", "guard_alarmed").size() == 1);
    CHECK(route_of(h).incumbent.url == kNew);
    auto looks = answers.read;
    std::ranges::sort(looks);
    CHECK(std::ranges::adjacent_find(looks) == looks.end());
    return h.entries("", "guard_alarmed")[0]["body"]["figures"]["n"].get<int>();
  };
  const int without = answers_until_alarm(false);
  CHECK(without > 5);
  CHECK(answers_until_alarm(true) == without);
}

TEST_CASE("an answer whose record fails is scored once more, and counts once") {
  Harness h;
  use_rescoring(h);
  Answers answers;
  answers.serve(h);
  h.set_up();
  promoted(h);
  REQUIRE(seconds_until(h, [&] { return rescoring_of(h)["answers"].get<int>() >= 3; }));
  int failed = 0;
  h.committer->before = [&](std::string_view what) {
    if (what != "guard" || failed > 0) return;
    ++failed;
    h.committer->fail_at = h.committer->count;
  };
  const auto before = answers.read.size();
  REQUIRE(seconds_until(h, [&] { return answers.read.size() >= before + 2; }));
  CHECK(failed == 1);
  CHECK(answers.read[before] == answers.read[before + 1]);
  h.second();
  CHECK(rescoring_of(h)["answers"].get<std::size_t>() == answers.read.size() - 1);
}

TEST_CASE("engines that cannot score tokens that they are given are said to be so, and nothing is kept") {
  Harness h;
  use_rescoring(h);
  Answers answers;
  answers.drift = 1;
  answers.serve(h);
  h.abilities.scoring = jobs::Scoring::none;
  h.set_up();
  promoted(h);
  for (int i = 0; i < 60; ++i) h.second();
  CHECK(rescoring_of(h)["why_none"] == "engine new cannot score tokens that it is given");
  CHECK(route_of(h).mirror_bp == 0);
  CHECK(answers.read.empty());
  CHECK(h.entries("", "guard_alarmed").empty());
  CHECK(armed(h).empty());
  CHECK(h.pipeline->figures().guards_not_rescoring == 1);
  h.abilities.scoring = jobs::Scoring::echo;
  h.add_engine("train-2", "k-train", 7);
  for (int i = 0; i < 70; ++i) h.second();
  CHECK(rescoring_of(h)["why_none"] == "engine new cannot score tokens that it is given");
}

TEST_CASE("an engine that is away is no alarm: it is said, and asked again later") {
  Harness h;
  use_rescoring(h);
  Answers answers;
  answers.serve(h);
  h.set_up();
  promoted(h);
  REQUIRE(seconds_until(h, [&] { return rescoring_of(h)["answers"].get<int>() >= 3; }));
  const auto scored = rescoring_of(h)["answers"];
  answers.away = true;
  for (int i = 0; i < 100; ++i) h.second();
  CHECK(rescoring_of(h)["unanswered"] == 2);
  CHECK(text_of(rescoring_of(h)["unanswered_why"]).find("nobody listens") != std::string::npos);
  CHECK(rescoring_of(h)["answers"] == scored);
  CHECK(h.entries("", "guard_alarmed").empty());
  // The same answer is tried three times, and then the next one.
  CHECK(answers.read.back() == answers.read[answers.read.size() - 2]);
  h.clock.advance_ms(3'600'000);
  h.second();
  CHECK(rescoring_of(h)["unanswered"] == 3);
  h.clock.advance_ms(3'600'000);
  h.second();
  CHECK(answers.read.back() != answers.read[answers.read.size() - 2]);
  answers.away = false;
  h.clock.advance_ms(3'600'000);
  REQUIRE(seconds_until(
      h, [&] { return rescoring_of(h)["answers"] > scored; }, 30));
  CHECK(rescoring_of(h)["unanswered"] == 0);
  CHECK(text_of(rescoring_of(h)["unanswered_why"]).empty());
}

TEST_CASE("a day's budget is released hour by hour, and nothing is kept once it is spent") {
  Harness h;
  use_rescoring(h, "share: 0.001, budget_tokens: 2400");
  Answers answers;
  answers.tokens = 100;
  answers.serve(h);
  h.set_up();
  promoted(h);
  // The harness' clock begins at 08:00 UTC: eight hours and the one that has begun.
  for (int i = 0; i < 60; ++i) h.second();
  CHECK(rescoring_of(h)["tokens_of_day"] == 1'000);
  CHECK(route_of(h).mirror_bp == 10);
  h.clock.advance_ms(3'600'000);
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(rescoring_of(h)["tokens_of_day"] == 1'100);
  answers.tokens = 2'000;
  h.clock.advance_ms(3'600'000);
  for (int i = 0; i < 90; ++i) h.second();
  CHECK(rescoring_of(h)["tokens_of_day"] == 3'100);
  CHECK(rescoring_of(h)["why_none"] == "the day's budget of 2400 tokens is spent");
  CHECK(route_of(h).mirror_bp == 0);
  CHECK(route_of(h).stage_key.empty());
  answers.tokens = 100;
  h.clock.advance_ms(86'400'000);
  for (int i = 0; i < 90; ++i) h.second();
  CHECK(rescoring_of(h)["why_none"].is_null());
  CHECK(route_of(h).stage_key.ends_with("/rescoring/2"));
  CHECK(rescoring_of(h)["tokens_of_day"].get<int>() <= 1'200);
}

TEST_CASE("each day, and when it has become large, another file is begun and the one before goes") {
  Harness h;
  use_rescoring(h);
  Answers answers;
  answers.serve(h);
  h.set_up();
  promoted(h);
  REQUIRE(seconds_until(h, [&] { return route_of(h).stage_key.ends_with("/rescoring/1"); }));
  answers.bytes = std::uint64_t{17} << 20;
  REQUIRE(seconds_until(
      h, [&] { return route_of(h).stage_key.ends_with("/rescoring/2"); }, 30));
  answers.bytes = 1'000;
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(route_of(h).stage_key.ends_with("/rescoring/2"));
  CHECK(h.driver.dropped.back().ends_with("/rescoring/1"));
  h.clock.advance_ms(86'400'000);
  REQUIRE(seconds_until(
      h, [&] { return route_of(h).stage_key.ends_with("/rescoring/3"); }, 90));
  CHECK(h.driver.dropped.back().ends_with("/rescoring/2"));
  CHECK(armed(h).size() == 1);
}

TEST_CASE("a next promotion takes the route over, and the guard goes on when it has ended") {
  Harness h;
  use_rescoring(h);
  Answers answers;
  answers.serve(h);
  h.set_up();
  promoted(h);
  REQUIRE(seconds_until(h, [&] { return route_of(h).stage_key.ends_with("/rescoring/1"); }));
  const auto guard = h.model()["guard"]["id"];
  h.behaviour.shadow_failures = 0.5;
  const auto next = h.request("newer");
  REQUIRE(h.run_until(next, {"rejected"}) == "rejected");
  const auto shadow = std::ranges::find_if(h.driver.applied, [&](const route::ModelRoute& route) {
    return route.stage_key.starts_with(next) && route.mirror_bp == 5'000;
  });
  REQUIRE(shadow != h.driver.applied.end());
  CHECK(shadow->candidate.has_value());
  h.behaviour.shadow_failures = 0;
  REQUIRE(seconds_until(h, [&] { return route_of(h).stage_key.ends_with("/rescoring/2"); }));
  CHECK(h.model()["guard"]["id"] == guard);
  CHECK_FALSE(route_of(h).candidate.has_value());
  const auto scored = rescoring_of(h)["answers"].get<int>();
  for (int i = 0; i < 10; ++i) h.second();
  CHECK(rescoring_of(h)["answers"].get<int>() > scored);
}

TEST_CASE("a data plane that does not take such a route gets one without it, and the reason is told") {
  Harness h;
  use_rescoring(h);
  h.driver.keeps_no_answers = true;
  h.set_up();
  promoted(h);
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(h.model()["route"]["desired"]["mirror_bp"] == 0);
  CHECK(h.model()["route"]["agree"] == true);
  CHECK(text_of(rescoring_of(h)["why_none"]).find("did not take a route that keeps answers") !=
        std::string::npos);
  h.driver.keeps_no_answers = false;
  h.clock.advance_ms(3'600'000);
  REQUIRE(seconds_until(
      h, [&] { return route_of(h).mirror_bp == 10; }, 90));
}

TEST_CASE("what was seen before traffic went to the fallback kernel is forgotten when it comes back") {
  Harness h;
  const std::string from = "inf: {ref: k-inf}}";
  h.contract.replace(h.contract.find(from), from.size(), "inf: {ref: k-inf}, fallback: {ref: k-safe}}");
  use_rescoring(h, "share: 0.001",
                "  rules: [{match: \"numerical.*\", stage: guard, action: fallback}]\n"
                "  defaults: {hard: rollback, soft: freeze}");
  Answers answers;
  answers.drift = 0.5;
  answers.serve(h);
  h.set_up();
  h.add_engine("safe", "k-safe", 4);
  promoted(h);
  REQUIRE(seconds_until(h, [&] { return route_of(h).all_to_fallback; }));
  CHECK(rescoring_of(h)["alarming"] == true);
  const auto looks = answers.read.size();
  for (int i = 0; i < 20; ++i) h.second();
  CHECK(answers.read.size() == looks);
  answers.drift = 0.05;
  REQUIRE(h.pipeline->lift_hold("olga", "m", "the disk was replaced").has_value());
  REQUIRE(seconds_until(
      h, [&] { return !route_of(h).all_to_fallback; }, 5));
  CHECK(rescoring_of(h)["alarming"] == false);
  CHECK(rescoring_of(h)["watches"][0]["answers"].get<int>() <= 5);
}

TEST_CASE("the plan of a promotion says who would score live answers again, or why nobody") {
  Harness h;
  use_rescoring(h);
  h.set_up();
  const auto plan = [&] {
    const auto view = h.pipeline->plan_promotion("pia", h.request_for());
    REQUIRE(view.has_value());
    return json::parse(view->json)["rescoring"];
  };
  CHECK(plan()["reference"] == "old");
  CHECK(plan()["why_none"].is_null());
}
