#include "stages/abilities.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "schema/metrics.hpp"
#include "stages/canary/traffic_rules.hpp"

namespace driftgate::stages {
namespace {

using schema::Metric;
using schema::Stage;

struct Need {
  const EngineCan* engine = nullptr;
  std::string message;
};

/// What both engines must have: the first that has not.
template <typename Has>
std::optional<Need> first_without(const EngineCan& incumbent, const EngineCan& candidate, Has has,
                                  const char* what) {
  for (const EngineCan* engine : std::array{&candidate, &incumbent}) {
    if (!has(*engine))
      return Need{engine, fmt::format("{}, and the engine {} does not", what, engine->engine)};
  }
  return std::nullopt;
}

/// Log-probabilities of what both engines generate, by which their tokens are known.
std::optional<Need> generated_gap(const EngineCan& incumbent, const EngineCan& candidate) {
  const bool completions = incumbent.logprobs && candidate.logprobs;
  const bool chat = incumbent.chat_logprobs && candidate.chat_logprobs;
  if (completions || chat) return std::nullopt;
  const auto gives = [](const EngineCan& engine) { return engine.logprobs || engine.chat_logprobs; };
  if (auto gap = first_without(incumbent, candidate, gives,
                               "it needs log-probabilities of generated tokens from both engines"))
    return gap;
  return Need{
      &candidate,
      fmt::format("it needs log-probabilities of generated tokens in the same endpoint of both engines; the "
                  "engines {} and {} have none in common",
                  candidate.engine, incumbent.engine)};
}

std::optional<Need> coverage_gap(const EngineCan& incumbent, const EngineCan& candidate) {
  if (incumbent.scores_given && candidate.scores_given) return std::nullopt;
  return generated_gap(incumbent, candidate);
}

std::optional<Need> shadow_gap(Metric metric, const EngineCan& incumbent, const EngineCan& candidate) {
  const auto group = schema::info(metric).group;
  if (metric == Metric::logprobs) return coverage_gap(incumbent, candidate);
  if (group == schema::MetricGroup::greedy) return generated_gap(incumbent, candidate);
  if (group != schema::MetricGroup::row && group != schema::MetricGroup::realised) return std::nullopt;
  return first_without(
      incumbent, candidate, [](const EngineCan& engine) { return engine.scores_given; },
      "it needs both engines to score tokens that they are given (echo, prompt_logprobs or /generate)");
}

std::optional<Need> gap_of(const schema::Clause& clause, Stage stage, const EngineCan& incumbent,
                           const EngineCan& candidate) {
  const auto metric = traffic_metric(clause);
  if (!metric) return std::nullopt;
  if (*metric == Metric::inter_token_ms) {
    const auto streams = [](const EngineCan& engine) { return engine.streams; };
    const bool relative = clause.limits.max_ratio || clause.limits.max_delta;
    return first_without(relative ? incumbent : candidate, candidate, streams,
                         "it needs answers that are streamed, token by token");
  }
  return stage == Stage::shadow_runtime ? shadow_gap(*metric, incumbent, candidate) : std::nullopt;
}

}  // namespace

EngineCan able_engine() {
  return {.engine = {},
          .completions = true,
          .chat = true,
          .logprobs = true,
          .chat_logprobs = true,
          .scores_given = true,
          .streams = true};
}

std::vector<AbilityGap> ability_gaps(const schema::Contract& contract, const EngineCan& incumbent,
                                     const EngineCan& candidate) {
  std::vector<AbilityGap> gaps;
  for (const schema::Clause& clause : contract.clauses) {
    for (const Stage stage : {Stage::shadow_runtime, Stage::canary}) {
      if ((clause.stages & schema::stage_bit(stage)) == 0) continue;
      const auto gap = gap_of(clause, stage, incumbent, candidate);
      if (!gap) continue;
      gaps.push_back({stage, clause.address(), clause.severity, gap->engine->engine,
                      fmt::format("{} cannot be decided in {}: {}.", clause.address(),
                                  schema::to_string(stage), gap->message)});
    }
  }
  return gaps;
}

std::optional<std::string> rescoring_gap(const schema::Contract& contract, const EngineCan& candidate) {
  if (!contract.guard || !contract.guard->rescoring || candidate.scores_given) return std::nullopt;
  return fmt::format(
      "The guard will score no answer again: it needs both engines to score tokens that they are given "
      "(echo, "
      "prompt_logprobs or /generate), and the engine {} does not.",
      candidate.engine);
}

}  // namespace driftgate::stages
