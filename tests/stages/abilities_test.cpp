#include "stages/abilities.hpp"

#include <doctest/doctest.h>

#include "tests/stages/make.hpp"

using namespace driftgate;
using namespace driftgate::stages;
using schema::Metric;
using schema::Stage;

namespace {

/// The clauses of a shipped contract that depend on what an engine can do, each in a stage of traffic.
schema::Contract contract() {
  schema::Limits coverage;
  coverage.min_coverage = 0.95;
  schema::Limits ratio;
  ratio.max_ratio = 1.2;
  schema::Contract contract = make::contract();
  contract.clauses = {
      make::traffic("coverage", schema::SignalSubject{Metric::logprobs}, coverage, Stage::shadow_runtime),
      make::traffic("ratio", schema::MetricSubject{Metric::abs_log_ratio, schema::Aggregate::mean},
                    make::max(0.1), Stage::shadow_runtime),
      make::traffic("gaps", schema::MetricSubject{Metric::inter_token_ms, schema::Aggregate::p99},
                    make::max(50), Stage::canary),
      make::traffic("slower", schema::MetricSubject{Metric::inter_token_ms, schema::Aggregate::p99}, ratio,
                    Stage::canary),
      make::traffic("errors", schema::MetricSubject{Metric::error_rate, {}}, make::max(0.01), Stage::canary)};
  return contract;
}

EngineCan named(const char* name) {
  EngineCan engine = able_engine();
  engine.engine = name;
  return engine;
}

std::vector<std::string> clauses_of(const std::vector<AbilityGap>& gaps) {
  std::vector<std::string> clauses;
  for (const auto& gap : gaps) clauses.push_back(gap.clause + " " + gap.engine);
  return clauses;
}

using Clauses = std::vector<std::string>;

}  // namespace

TEST_CASE("engines with every ability leave no gap") {
  CHECK(ability_gaps(contract(), named("old"), named("new")).empty());
}

TEST_CASE("an engine that cannot score given tokens leaves target tokens undecided, but not coverage") {
  auto candidate = named("new");
  candidate.scores_given = false;
  const auto gaps = ability_gaps(contract(), named("old"), candidate);
  REQUIRE(clauses_of(gaps) == Clauses{"runtime.ratio new"});
  CHECK(gaps[0].stage == Stage::shadow_runtime);
  CHECK(gaps[0].message.find("runtime.ratio cannot be decided in shadow-runtime: ") == 0);
  CHECK(gaps[0].message.find("the engine new does not") != std::string::npos);
}

TEST_CASE("coverage takes log-probabilities in one endpoint that both engines have") {
  auto incumbent = named("old"), candidate = named("new");
  incumbent.scores_given = candidate.scores_given = false;
  incumbent.logprobs = false;
  CHECK(clauses_of(ability_gaps(contract(), incumbent, candidate)) == Clauses{"runtime.ratio new"});
  candidate.chat_logprobs = false;  // one gives them in completions only, the other in chat only
  CHECK(clauses_of(ability_gaps(contract(), incumbent, candidate)) ==
        Clauses{"runtime.coverage new", "runtime.ratio new"});
  candidate.logprobs = false;
  const auto gaps = ability_gaps(contract(), incumbent, candidate);
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].message.find("from both engines, and the engine new does not") != std::string::npos);
}

TEST_CASE(
    "gaps between tokens need the candidate's streams, and under a relative limit the incumbent's too") {
  auto incumbent = named("old");
  incumbent.streams = false;
  CHECK(clauses_of(ability_gaps(contract(), incumbent, named("new"))) == Clauses{"runtime.slower old"});
  auto candidate = named("new");
  candidate.streams = false;
  CHECK(clauses_of(ability_gaps(contract(), named("old"), candidate)) ==
        Clauses{"runtime.gaps new", "runtime.slower new"});
}

TEST_CASE("clauses on greedy answers need log-probabilities of what both engines generate, and no scoring") {
  auto contract = make::contract();
  schema::Limits least;
  least.min = 0.9;
  contract.clauses = {
      make::traffic("prefix",
                    schema::MetricSubject{Metric::prefix_agreement, schema::Aggregate::sequence_mean}, least,
                    Stage::shadow_runtime),
      make::traffic("rate", schema::MetricSubject{Metric::divergence_rate, {}}, make::max(0.1),
                    Stage::shadow_runtime)};
  auto incumbent = named("old"), candidate = named("new");
  incumbent.scores_given = candidate.scores_given = false;
  CHECK(ability_gaps(contract, incumbent, candidate).empty());
  candidate.chat_logprobs = false;
  CHECK(ability_gaps(contract, incumbent, candidate).empty());
  incumbent.logprobs = false;  // the two have no endpoint in common
  CHECK(clauses_of(ability_gaps(contract, incumbent, candidate)) ==
        Clauses{"runtime.prefix new", "runtime.rate new"});
  // Scoring of given tokens does not tell what an engine would say by itself.
  incumbent = candidate = named("new");
  candidate.logprobs = candidate.chat_logprobs = false;
  const auto gaps = ability_gaps(contract, incumbent, candidate);
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].message ==
        "runtime.prefix cannot be decided in shadow-runtime: it needs log-probabilities of generated tokens "
        "from "
        "both engines, and the engine new does not.");
}

TEST_CASE(
    "an engine that cannot score given tokens leaves the guard without rescoring, and only where it is asked "
    "for") {
  auto guarded = contract();
  auto engine = named("new");
  engine.scores_given = false;
  CHECK_FALSE(rescoring_gap(guarded, engine).has_value());
  guarded.guard.emplace();
  CHECK_FALSE(rescoring_gap(guarded, engine).has_value());
  guarded.guard->rescoring.emplace();
  const auto gap = rescoring_gap(guarded, engine);
  REQUIRE(gap.has_value());
  CHECK(gap->find("the engine new does not") != std::string::npos);
  CHECK_FALSE(rescoring_gap(guarded, named("new")).has_value());
}
