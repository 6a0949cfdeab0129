#include "stages/guard/rescore_watch.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stages/statistics/random.hpp"
#include "tests/stages/canary_world.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Aggregate;
using schema::Metric;
using schema::SliceRole;

namespace {

constexpr std::int64_t kArmedUs = std::int64_t{20'000} * 86'400'000'000;
constexpr double kShare = 0.2;

/// At most 0.1 of total variation, on all answers and on the slices of these roles.
schema::Contract drift_contract(std::vector<SliceRole> roles = {}) {
  auto contract = make::contract();
  contract.guard.emplace();
  contract.guard->rescoring.emplace();
  const schema::MetricSubject tv{Metric::tv, Aggregate::sequence_mean};
  contract.clauses = {make::slice_clause("tv", tv, make::max(0.1), {})};
  if (!roles.empty()) contract.clauses.push_back(make::slice_clause("slice-tv", tv, make::max(0.1), roles));
  contract.slices.critical = {{{"language", "de"}}};
  return contract;
}

/// Answers of distinct keys, one a minute. The ratio p/q of their tokens is e^drift and e^−drift in turn, so
/// that the estimate of their total variation is (1 − e^−drift)/2.
struct World {
  explicit World(const schema::Contract& the_contract)
      : contract(the_contract), watch(contract, kShare, kArmedUs) {}

  schema::Contract contract;
  RescoreWatch watch;
  Random random{1};
  std::int64_t now_us = kArmedUs;

  RescoredAnswer answer(double drift, const std::string& slice = {}) {
    RescoredAnswer out{
        .key_hash = random.next(), .slice = slice, .unfiltered = true, .log_p = {}, .log_q = {}};
    for (int i = 0; i < 20; ++i) {
      out.log_q.push_back(-2);
      out.log_p.push_back(i % 2 == 0 ? -2 + drift : -2 - drift);
    }
    out.at_us = now_us += 60'000'000;
    return out;
  }
  GuardDecision add(double drift, const std::string& slice = {}) {
    const auto taken = watch.observe(answer(drift, slice));
    REQUIRE(taken.has_value());
    CHECK(*taken);
    return watch.decide();
  }
  /// Answers until something alarms, at most `most`.
  int until_alarm(double drift, int most, const std::string& slice = {}) {
    for (int i = 1; i <= most; ++i) {
      if (!add(drift, slice).alarms.empty()) return i;
    }
    return most + 1;
  }
};

}  // namespace

TEST_CASE("drift beyond a limit is an alarm, told once, with the order of the contract, and it clears") {
  World world(drift_contract());
  for (int i = 0; i < 1'000; ++i) CHECK(world.add(0.2).alarms.empty());  // a total variation of 0.091
  CHECK(world.until_alarm(0.4, 120) <= 100);                             // of 0.165
  CHECK(world.watch.alarming());
  CHECK(world.add(0.4).alarms.empty());
  int cleared = 0;
  for (int i = 0; i < 300; ++i) cleared += static_cast<int>(world.add(0.01).cleared.size());
  CHECK(cleared == 1);
  CHECK_FALSE(world.watch.alarming());

  World other(drift_contract());
  for (int i = 0; i < 200; ++i) {
    const auto decision = other.add(0.4);
    if (decision.alarms.empty()) continue;
    REQUIRE(decision.alarms.size() == 1);
    const auto& alarm = decision.alarms[0];
    CHECK(alarm.clause == "statistical.tv");
    CHECK(alarm.verdict == schema::Verdict::violated);
    CHECK(*alarm.threshold == 0.1);
    CHECK(*alarm.estimate == doctest::Approx((1 - std::exp(-0.4)) / 2));
    CHECK(alarm.details.at("e_harm_needed") == doctest::Approx(1 / kShare));
    CHECK(decision.escalation.action == schema::Action::rollback);
    return;
  }
  FAIL("no alarm in 200 answers");
}

TEST_CASE("answers that were sampled with filters say nothing about total variation, and are counted") {
  World world(drift_contract());
  for (int i = 0; i < 200; ++i) {
    auto filtered = world.answer(1);
    filtered.unfiltered = false;
    CHECK(*world.watch.observe(filtered));
  }
  const auto decision = world.watch.decide();
  CHECK(decision.alarms.empty());
  CHECK(decision.verdicts[0].n == 0);
  CHECK(world.watch.answers() == 200);
  CHECK(world.watch.filtered() == 200);

  auto contract = drift_contract();
  contract.clauses = {make::slice_clause(
      "log", schema::MetricSubject{Metric::abs_log_ratio, Aggregate::sequence_mean}, make::max(0.1), {})};
  contract.clauses[0].clip = 1;
  World any(contract);
  auto filtered = any.answer(0.3);
  filtered.unfiltered = false;
  CHECK(*any.watch.observe(filtered));
  CHECK(any.watch.decide().verdicts[0].n == 1);
}

TEST_CASE("each sticky key has one answer a day") {
  World world(drift_contract());
  auto answer = world.answer(0.1);
  CHECK(world.watch.takes(answer.key_hash, answer.at_us));
  CHECK(*world.watch.observe(answer));
  CHECK_FALSE(world.watch.takes(answer.key_hash, answer.at_us));
  CHECK_FALSE(*world.watch.observe(answer));
  CHECK(world.watch.answers() == 1);
  answer.at_us += 86'400'000'000;
  CHECK(world.watch.takes(answer.key_hash, answer.at_us));
  CHECK(*world.watch.observe(answer));
  CHECK(world.watch.answers() == 2);
}

TEST_CASE("an answer without a token that both engines know counts nothing, and no probability is above 1") {
  World world(drift_contract());
  auto unknown = world.answer(0.1);
  for (double& value : unknown.log_p) value = std::nan("");
  CHECK_FALSE(*world.watch.observe(unknown));
  CHECK(world.watch.takes(unknown.key_hash, unknown.at_us));
  CHECK_FALSE(*world.watch.observe({}));
  auto wrong = world.answer(0.1);
  wrong.log_q[0] = 0.5;
  const auto refused = world.watch.observe(wrong);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == schema::ErrorCode::invalid_argument);
  CHECK(world.watch.answers() == 0);
}

TEST_CASE("critical slices are watched from the beginning, monitored ones from their first answer on") {
  World world(drift_contract({SliceRole::critical, SliceRole::monitored}));
  CHECK(world.watch.watches() == 2);
  world.add(0.1, "language=fr;region=eu");  // region is no dimension of the contract
  CHECK(world.watch.watches() == 3);
  world.add(0.1, "language=de");
  CHECK(world.watch.watches() == 3);
  for (int i = 0; i < 40; ++i) world.add(0.1, "language=l" + std::to_string(i));
  CHECK(world.watch.watches() == 2 + RescoreWatch::kMostMonitored);
  double sum = 0;
  const auto verdicts = world.watch.decide().verdicts;
  for (const auto& verdict : verdicts) sum += verdict.details.at("share_of_false_alarms");
  CHECK(verdicts[0].details.at("share_of_false_alarms") == doctest::Approx(kShare / 2));
  CHECK(sum == doctest::Approx(kShare));
  CHECK(verdicts[1].where == schema::SliceWhere{{"language", "de"}});
  CHECK(verdicts[2].role == SliceRole::monitored);
}

TEST_CASE("a slice that drifts alone is named") {
  World world(drift_contract({SliceRole::critical}));
  for (int i = 0; i < 400; ++i) {
    world.add(0.1, "language=en");
    world.add(0.1, "language=en");
    const auto alarms = world.add(0.4, "language=de").alarms;
    if (alarms.empty()) continue;
    REQUIRE(alarms.size() == 1);
    CHECK(alarms[0].clause == "statistical.slice-tv");
    CHECK(alarms[0].where == schema::SliceWhere{{"language", "de"}});
    return;
  }
  FAIL("the slice was not found in 400 answers");
}

TEST_CASE("a limit of zero is violated by the first answer beyond it") {
  auto contract = drift_contract();
  contract.clauses = {make::slice_clause(
      "clip", schema::MetricSubject{Metric::clip_budget_used, Aggregate::sequence_mean}, make::max(0), {})};
  World world(contract);
  for (int i = 0; i < 100; ++i) CHECK(world.add(0.1).alarms.empty());
  CHECK(world.add(0.3).alarms.size() == 1);
}

TEST_CASE("stored at any answer, the decisions are the same") {
  const auto contract = drift_contract({SliceRole::critical, SliceRole::monitored});
  World whole(contract), stored(contract);
  for (int i = 0; i < 300; ++i) {
    const std::string slice = i % 3 == 0 ? "language=de" : "language=l" + std::to_string(i % 7);
    const double drift = i < 150 ? 0.1 : 0.4;
    const auto expected = whole.add(drift, slice);
    const auto found = stored.add(drift, slice);
    REQUIRE(found.verdicts.size() == expected.verdicts.size());
    for (std::size_t v = 0; v < found.verdicts.size(); ++v)
      CHECK(schema::to_json(found.verdicts[v]) == schema::to_json(expected.verdicts[v]));
    CHECK(found.alarms.size() == expected.alarms.size());
    auto back = RescoreWatch::from_json(contract, nlohmann::json::parse(stored.watch.to_json().dump()));
    REQUIRE(back.has_value());
    stored.watch = std::move(*back);
  }
  CHECK(whole.watch.alarming());
  CHECK(stored.watch.answers() == 300);
}

TEST_CASE("state that is damaged, of another contract or another version is refused") {
  const auto contract = drift_contract();
  World world(contract);
  world.add(0.1);
  const auto good = world.watch.to_json();
  const auto code = [&](const nlohmann::json& json) {
    const auto read = RescoreWatch::from_json(contract, json);
    REQUIRE_FALSE(read.has_value());
    return read.error().code;
  };
  for (const auto& [name, value] : good.items()) {
    CAPTURE(name);
    auto json = good;
    json.erase(name);
    CHECK(code(json) == schema::ErrorCode::corrupt);
  }
  auto other = good;
  other["contract"] = "sha256:other";
  CHECK(code(other) == schema::ErrorCode::conflict);
  other = good;
  other["version"] = 99;
  CHECK(code(other) == schema::ErrorCode::unsupported);
  other = good;
  other["watches"][0]["clause"] = "statistical.none";
  CHECK(code(other) == schema::ErrorCode::corrupt);
  CHECK(code("text") == schema::ErrorCode::corrupt);
}

TEST_CASE("what was seen of a version that does not serve is forgotten, but for who was asked today") {
  World world(drift_contract());
  CHECK(world.until_alarm(0.4, 200) <= 200);
  const auto answer = world.answer(0.4);
  CHECK(*world.watch.observe(answer));
  world.watch.restart(world.now_us);
  CHECK_FALSE(world.watch.alarming());
  CHECK(world.watch.decide().verdicts[0].n == 0);
  CHECK_FALSE(world.watch.takes(answer.key_hash, answer.at_us));
}

TEST_CASE("rescored answers have their part of the guard's false alarms, where a clause is tested on them") {
  auto contract = make::canary_contract();
  contract.guard.emplace();
  Promoted promoted;
  promoted.rates.push_back({"runtime.errors", {}, SliceRole::corpus, 16'000, 16'000, 160, 0.0114});
  const auto share = [&] { return GuardState::create(contract, promoted, {kArmedUs})->rescoring_share(); };
  CHECK(share() == 0);
  contract.guard->rescoring.emplace();
  CHECK(share() == 0);
  contract.clauses.push_back(drift_contract().clauses[0]);
  CHECK(share() == doctest::Approx(kRescoringShare / (kWholeShare + kProbeShare + kRescoringShare)));
  const auto state = GuardState::create(contract, promoted, {kArmedUs})->serialise();
  CHECK(GuardState::deserialise(contract, state, {})->rescoring_share() == share());
}
