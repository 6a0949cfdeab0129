#include "stages/guard/guard.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/canary_world.hpp"
#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Verdict;

namespace {

constexpr std::int64_t kArmedUs = std::int64_t{20'000} * 86'400'000'000;

schema::Contract guarded() {
  auto contract = make::canary_contract();
  contract.guard.emplace();
  return contract;
}

/// What a canary saw of keys that were there in one hour.
PromotedRate rate_of(const char* clause, std::uint64_t failed, std::uint64_t keys,
                     schema::SliceWhere where = {}) {
  return {clause,
          std::move(where),
          schema::SliceRole::monitored,
          keys,
          keys,
          failed,
          clopper_pearson_upper(failed, keys, kPromotedAlpha)};
}

Promoted promoted(std::uint64_t failed, std::uint64_t keys) {
  Promoted out;
  out.rates.push_back(rate_of("runtime.errors", failed, keys));
  return out;
}

/// Traffic of distinct keys in front of one guard.
struct World {
  World(const schema::Contract& the_contract, const Promoted& what, std::uint64_t seed = 1)
      : contract(the_contract), guard(*GuardState::create(contract, what, {kArmedUs})), random(seed) {}

  schema::Contract contract;
  GuardState guard;
  Random random;
  std::int64_t now_us = kArmedUs;
  double fails = 0.01, slow = 0;
  std::string slice;
  double slice_fails = -1;  ///< of language=de
  std::string kept{};

  void request() {
    CanaryObservation seen;
    seen.key_hash = random.next();
    seen.routed_us = now_us += 50'000;
    seen.slice = slice;
    const double rate = slice == "language=de" && slice_fails >= 0 ? slice_fails : fails;
    seen.outcome = random.uniform() < rate ? RequestOutcome::failed : RequestOutcome::ok;
    seen.latency.ttft_ms = random.uniform() < slow ? 500 : 20 + 10 * random.uniform();
    guard.observe(seen);
  }
  GuardDecision window(int requests = 100) {
    for (int i = 0; i < requests; ++i) request();
    return guard.decide();
  }
  /// Windows until something alarms, at most `most`.
  int until_alarm(int most) {
    for (int i = 1; i <= most; ++i) {
      if (!window().alarms.empty()) return i;
    }
    return most + 1;
  }
};

}  // namespace

TEST_CASE("a max stays as it is, and relative limits become those of the promoted figure's upper limit") {
  const double upper = clopper_pearson_upper(160, 16'000, kPromotedAlpha);
  CHECK(upper == doctest::Approx(0.0114).epsilon(0.02));
  const auto limit = [&](const schema::Limits& limits) {
    auto contract = guarded();
    contract.clauses[0].limits = limits;
    const GuardDecision decision = GuardState::create(contract, promoted(160, 16'000), {kArmedUs})->decide();
    REQUIRE(decision.verdicts.size() == 1);
    return *decision.verdicts[0].threshold;
  };
  schema::Limits limits;
  limits.max = 0.05;
  CHECK(limit(limits) == 0.05);
  limits.max_ratio = 1.5;
  CHECK(limit(limits) == 1.5 * upper);
  limits.max = 0.012;
  CHECK(limit(limits) == 0.012);
  limits = {};
  limits.max_delta = 0.01;
  CHECK(limit(limits) == 0.01 + upper);
}

TEST_CASE("a relative limit without anything promoted is not watched") {
  auto contract = guarded();
  contract.clauses[0].limits = {};
  contract.clauses[0].limits.max_ratio = 1.5;
  CHECK(GuardState::create(contract, promoted(0, 0), {kArmedUs})->watches() == 0);
  CHECK(GuardState::create(contract, promoted(0, 300), {kArmedUs})->watches() == 1);
}

TEST_CASE("a guard needs a contract with one, and clauses that it has") {
  CHECK_FALSE(GuardState::create(make::canary_contract(), promoted(1, 100), {kArmedUs}).has_value());
  Promoted unknown = promoted(1, 100);
  unknown.rates[0].clause = "runtime.unknown";
  const auto made = GuardState::create(guarded(), unknown, {kArmedUs});
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().message.find("has no clause runtime.unknown") != std::string::npos);
}

TEST_CASE("all watches and the probes together have one false alarm in the stated time") {
  auto contract = guarded();
  auto soft = contract.clauses[0];
  soft.id = "soft";
  soft.severity = schema::Severity::soft;
  contract.clauses.push_back(soft);
  Promoted what = promoted(10, 1'000);
  what.rates.push_back(rate_of("runtime.soft", 10, 1'000));
  for (const char* language : {"de", "fr", "it"})
    what.rates.push_back(rate_of("runtime.errors", 3, 300, {{"language", language}}));
  const auto shares = [&] {
    double sum = 0;
    for (const auto& verdict : GuardState::create(contract, what, {kArmedUs})->decide().verdicts)
      sum += 1 / verdict.details.at("e_harm_needed");
    return sum;
  };
  const auto probe_share = [&] { return GuardState::create(contract, what, {kArmedUs})->probe_share(); };
  CHECK(probe_share() == doctest::Approx(0.2));
  CHECK(shares() == doctest::Approx(0.8));
  const auto verdicts = GuardState::create(contract, what, {kArmedUs})->decide().verdicts;
  CHECK(verdicts[0].details.at("share_of_false_alarms") ==
        doctest::Approx(0.32));  // hard: four parts of five
  CHECK(verdicts[1].details.at("share_of_false_alarms") == doctest::Approx(0.08));
  CHECK(verdicts[2].details.at("share_of_false_alarms") == doctest::Approx(0.4 / 3));
  contract.guard->probes.prompts = 0;
  CHECK(probe_share() == 0);
  CHECK(shares() == doctest::Approx(1));
  what.rates.resize(2);
  CHECK(shares() == doctest::Approx(1));
}

TEST_CASE("failures that double are an alarm, told once, which clears when they are gone") {
  auto contract = guarded();
  contract.clauses[0].limits.max_ratio = 1;
  World world(contract, promoted(160, 16'000));
  for (int i = 0; i < 400; ++i) CHECK(world.window().alarms.empty());
  world.fails = 0.02;
  const int needed = world.until_alarm(200);
  CHECK(needed <= 150);
  const GuardDecision after = world.window();
  REQUIRE(after.verdicts.size() == 1);
  CHECK(after.verdicts[0].verdict == Verdict::violated);
  CHECK(after.alarms.empty());
  CHECK_FALSE(after.escalation.acted);
  CHECK(after.verdicts[0].details.at("change_mean") == doctest::Approx(0.02).epsilon(0.3));
  world.fails = 0.005;
  bool cleared = false;
  for (int i = 0; i < 200 && !cleared; ++i) cleared = !world.window().cleared.empty();
  CHECK(cleared);
  world.fails = 0.03;
  CHECK(world.until_alarm(200) <= 150);
}

TEST_CASE("an alarm orders what the contract says for the guard") {
  auto contract = guarded();
  const auto ordered = [&] {
    World world(contract, promoted(160, 16'000));
    world.fails = 0.5;
    for (int i = 0; i < 50; ++i) {
      const GuardDecision decision = world.window();
      if (!decision.alarms.empty()) return decision.escalation;
    }
    FAIL("no alarm");
    return EscalationDecision{};
  };
  CHECK(ordered().action == schema::Action::rollback);
  schema::EscalationRule rule;
  rule.match = "runtime.errors";
  rule.action = schema::Action::notify;
  rule.stage = schema::Stage::canary;
  contract.escalation.rules = {rule};
  CHECK(ordered().action == schema::Action::rollback);
  contract.escalation.rules[0].stage.reset();
  CHECK(ordered().action == schema::Action::notify);
  contract.escalation.rules[0].action = schema::Action::freeze;
  CHECK(ordered().action == schema::Action::notify);  // nothing grows that could be frozen
  contract.escalation.rules[0].action = schema::Action::fallback;
  contract.escalation.rules[0].guard = true;
  CHECK(ordered().action == schema::Action::fallback);
}

TEST_CASE("a user whose requests all fail is one failure an hour") {
  World world(guarded(), promoted(160, 16'000));
  CanaryObservation unlucky;
  unlucky.key_hash = 77;
  unlucky.outcome = RequestOutcome::failed;
  for (int i = 0; i < 5'000; ++i) {
    unlucky.routed_us = world.now_us + 1;
    world.guard.observe(unlucky);
    world.request();
  }
  CHECK(world.guard.seen() == 5'001);
  CHECK(world.guard.decide().alarms.empty());
  unlucky.routed_us = world.now_us + 86'400'000'000;
  world.guard.observe(unlucky);
  CHECK(world.guard.seen() == 5'002);
}

TEST_CASE("pinned and excluded requests count nothing, and each request without a key counts") {
  World world(guarded(), promoted(160, 16'000));
  CanaryObservation seen;
  seen.routed_us = world.now_us;
  seen.pinned = true;
  world.guard.observe(seen);
  seen.pinned = false;
  seen.outcome = RequestOutcome::excluded;
  world.guard.observe(seen);
  CHECK(world.guard.seen() == 0);
  seen.outcome = RequestOutcome::ok;
  seen.keyless = true;
  for (int i = 0; i < 3; ++i) world.guard.observe(seen);
  CHECK(world.guard.seen() == 3);
}

TEST_CASE("a slice that fails is found on the slice") {
  auto contract = guarded();
  Promoted what = promoted(160, 16'000);
  what.rates.push_back(rate_of("runtime.errors", 20, 2'000, {{"language", "de"}}));
  contract.clauses[0].limits.max_ratio = 1;
  World world(contract, what);
  world.slice_fails = 0.1;
  std::string found;
  for (int i = 0; i < 20'000 && found.empty(); ++i) {
    world.slice = i % 20 == 0 ? "language=de" : "language=en";
    world.request();
    if (i % 100 != 99) continue;
    const GuardDecision decision = world.guard.decide();
    if (!decision.alarms.empty()) found = schema::slice_text(decision.alarms[0].where);
  }
  CHECK(found == "language=de");
}

TEST_CASE("a stall is no alarm, since failures that come together count as one; a lasting failure is") {
  auto contract = guarded();
  contract.clauses[0].limits.max_ratio = 1;
  World world(contract, promoted(160, 16'000));
  for (int i = 0; i < 400; ++i) (void)world.window();
  for (int stall = 0; stall < 5; ++stall) {
    world.fails = 1;
    const GuardDecision during = world.window(80);  // four seconds
    CHECK(during.alarms.empty());
    CHECK(during.dependent);
    world.fails = 0.01;
    for (int i = 0; i < 200; ++i) CHECK(world.window().alarms.empty());
  }
  world.fails = 1;
  CHECK(world.until_alarm(40) <= 20);
}

TEST_CASE(
    "answers beyond the promoted latency are found in their stratum, and other strata are not looked at") {
  auto contract = guarded();
  contract.slices.prompt_length_bounds = {100};
  schema::Limits ratio;
  ratio.max_ratio = 1.5;
  contract.clauses = {make::traffic("ttft",
                                    schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p95},
                                    ratio, schema::Stage::canary)};
  Promoted what;
  what.latencies.push_back({"runtime.ttft", {}, schema::SliceRole::corpus, {{0, 40.0}, {1, HUGE_VAL}}});
  World world(contract, what);
  CHECK(world.guard.watches() == 1);
  world.fails = 0;
  for (int i = 0; i < 200; ++i) CHECK(world.window().alarms.empty());
  world.slow = 0.3;
  CHECK(world.until_alarm(100) <= 60);
  const auto verdict = world.guard.decide().verdicts.at(0);
  CHECK(*verdict.threshold == doctest::Approx(0.05));
  CHECK(verdict.message.find("may take longer than 60 ms") != std::string::npos);
}

TEST_CASE("a guard that was stored and read makes the same decisions") {
  auto contract = guarded();
  contract.clauses[0].limits.max_ratio = 1;
  schema::Limits slower;
  slower.max_ratio = 1.2;
  contract.clauses.push_back(
      make::traffic("ttft", schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p95}, slower,
                    schema::Stage::canary));
  Promoted what = promoted(160, 16'000);
  what.rates.push_back(rate_of("runtime.errors", 9, 900, {{"language", "de"}}));
  what.latencies.push_back({"runtime.ttft", {}, schema::SliceRole::corpus, {{0, 30.0}}});
  World steady(contract, what, 3), restarted(contract, what, 3);
  Random restarts(17);
  for (int i = 0; i < 300; ++i) {
    for (World* world : {&steady, &restarted}) {
      world->fails = i < 150 ? 0.01 : 0.025;
      world->slice = i % 3 == 0 ? "language=de" : "";
    }
    const GuardDecision a = steady.window(60);
    const GuardDecision b = restarted.window(60);
    REQUIRE(a.verdicts.size() == b.verdicts.size());
    for (std::size_t v = 0; v < a.verdicts.size(); ++v) {
      CHECK(a.verdicts[v].message == b.verdicts[v].message);
      CHECK(a.verdicts[v].e_value == b.verdicts[v].e_value);
    }
    CHECK(a.alarms.size() == b.alarms.size());
    CHECK(a.cleared.size() == b.cleared.size());
    restarted.kept += restarted.guard.take_new_keys();
    if (restarts.uniform() > 0.1) continue;
    auto read = GuardState::deserialise(contract, restarted.guard.serialise(), restarted.kept);
    REQUIRE(read.has_value());
    restarted.guard = std::move(*read);
  }
  CHECK(steady.guard.serialise() == restarted.guard.serialise());
}

TEST_CASE("a guard that begins anew knows nothing of what it saw, and finds it again") {
  auto contract = guarded();
  contract.clauses[0].limits.max_ratio = 1;
  World world(contract, promoted(160, 16'000));
  world.fails = 0.1;
  CHECK(world.until_alarm(100) <= 30);
  world.guard.restart(world.now_us);
  const GuardDecision decision = world.guard.decide();
  REQUIRE(decision.verdicts.size() == 1);
  CHECK(decision.verdicts[0].verdict == Verdict::pass);
  CHECK(decision.verdicts[0].n == 0);
  CHECK(world.until_alarm(100) <= 30);
}

TEST_CASE("a state that is damaged, of another contract or of another version is refused with its reason") {
  World world(guarded(), promoted(160, 16'000));
  (void)world.window();
  const std::string text = world.guard.serialise();
  const auto read = [&](const std::string& state, const schema::Contract& contract) {
    return GuardState::deserialise(contract, state, {});
  };
  REQUIRE(read(text, guarded()).has_value());
  for (std::size_t size = 0; size < text.size(); size += 7) {
    const auto damaged = read(text.substr(0, size), guarded());
    REQUIRE_FALSE(damaged.has_value());
    CHECK(damaged.error().code == schema::ErrorCode::corrupt);
  }
  auto other = guarded();
  other.digest = "sha256:other";
  CHECK(read(text, other).error().code == schema::ErrorCode::conflict);
  std::string newer = text;
  newer.replace(newer.find("\"version\":2"), 11, "\"version\":9");
  CHECK(read(newer, guarded()).error().code == schema::ErrorCode::unsupported);
  const auto cut = GuardState::deserialise(guarded(), text, "no whole key");
  REQUIRE_FALSE(cut.has_value());
  CHECK(cut.error().code == schema::ErrorCode::corrupt);
  auto fewer = guarded();
  fewer.clauses.clear();
  CHECK(read(text, fewer).error().code == schema::ErrorCode::corrupt);
}

TEST_CASE("a guard that counted each key once a day goes on, with what it had seen") {
  World world(guarded(), promoted(160, 16'000));
  (void)world.window();
  auto state = nlohmann::json::parse(world.guard.serialise());
  state["version"] = 1;
  state.erase("periods");
  state["day"] = {20'000, 0};
  state["watches"][0]["plan"]["promoted"].erase(3);
  auto read = GuardState::deserialise(guarded(), state.dump(), {});
  REQUIRE(read.has_value());
  const auto verdict = read->decide().verdicts.at(0);
  CHECK(verdict.n == 100);
  CHECK(verdict.details.at("promoted_periods") == 16'000);
  world.guard = std::move(*read);
  (void)world.window();
  CHECK(world.guard.seen() == 200);
}

TEST_CASE("what a canary saw of its candidate is what its guard begins with") {
  auto contract = guarded();
  schema::Limits ratio;
  ratio.max_ratio = 1.2;
  contract.clauses.push_back(
      make::traffic("ttft", schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p95}, ratio,
                    schema::Stage::canary));
  CanaryWorld world(contract, 1);
  for (int second = 0; second < 200; ++second) (void)world.second(0.02);
  const Promoted seen = world.state.promoted();
  REQUIRE(seen.rates.size() == 1);
  CHECK(seen.rates[0].clause == "runtime.errors");
  CHECK(seen.rates[0].keys > 1'000);
  CHECK(seen.rates[0].periods == seen.rates[0].keys);  // distinct keys
  CHECK(seen.rates[0].failed > 5);
  CHECK(seen.rates[0].upper ==
        doctest::Approx(clopper_pearson_upper(seen.rates[0].failed, seen.rates[0].keys, kPromotedAlpha))
            .epsilon(0.02));
  REQUIRE(seen.latencies.size() == 1);
  CHECK(seen.latencies[0].upper_ms.at(0) > 28);
  CHECK(seen.latencies[0].upper_ms.at(0) < 35);
  CHECK(seen.block_us >= 12'000'000);
  CHECK(GuardState::create(contract, seen, {kArmedUs})->watches() == 2);
}

TEST_CASE("a guard begins with the keys that its canary counted last, and stores them") {
  Promoted what = promoted(160, 16'000);
  const std::int64_t period = key_period(5, kArmedUs);
  what.keys = {{5, period}, {6, key_period(6, kArmedUs) - 1}};
  auto guard = *GuardState::create(guarded(), what, {kArmedUs});
  CHECK(guard.hour() == kArmedUs / kKeyPeriodUs);
  const std::string kept = guard.take_new_keys();
  CHECK(kept.size() == 16);  // the hour of key 6 is over
  CanaryObservation seen;
  seen.routed_us = kArmedUs + 1;
  for (const std::uint64_t key : {5, 6, 7}) {
    seen.key_hash = key;
    guard.observe(seen);
  }
  CHECK(guard.seen() == 2);
  auto read =
      GuardState::deserialise(guarded(), GuardState::create(guarded(), what, {kArmedUs})->serialise(), kept);
  REQUIRE(read.has_value());
  seen.key_hash = 5;
  read->observe(seen);
  CHECK(read->seen() == 0);
}
