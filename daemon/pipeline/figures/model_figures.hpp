#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schema/verdict.hpp"

namespace driftgate::pipeline {

// Limits on what is shown by model: however many models, clauses and slices there are, /metrics stays short.
inline constexpr std::size_t kMaxFigureModels = 1'000;  ///< the first by name
inline constexpr std::size_t kMaxFigureClauses = 32;    ///< of one decision, each on one slice

/// Upper limits of the buckets of latencies, in seconds; one more bucket has the rest.
inline constexpr std::array<double, 14> kLatencyBounds{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                       2.5,  5,     10,   30,  60,   120, 300};

/// One test of a decision.
struct ClauseFigure {
  std::string clause{};
  std::string slice{};  ///< "" = all traffic, or the whole corpus
  std::string kind{};   ///< of the limit: max, max_ratio …
  schema::Verdict verdict = schema::Verdict::error;
  std::uint64_t n = 0;
  std::optional<double> value{}, limit{};
  std::optional<double> e_value{}, e_needed{};  ///< against the limit's being kept, and what decides
};

/// The newest decision of a stage, or of a guard.
struct DecisionFigures {
  std::string stage{};  ///< "canary" …; "guard" of a guard
  std::int64_t time_us = 0;
  std::vector<ClauseFigure> clauses{};
  std::size_t left_out = 0;  ///< tests beyond kMaxFigureClauses
};
/// Of more tests than kMaxFigureClauses, those that are violated come first, then those of hard clauses, then
/// those on all traffic and on critical slices. Each clause, slice and kind of limit is there once.
[[nodiscard]] std::shared_ptr<const DecisionFigures> figures_of(
    std::string_view stage, const std::vector<schema::ClauseVerdict>& verdicts, std::int64_t now_us);

/// Latencies as Prometheus counts them, but for each bucket by itself.
struct LatencyFigures {
  std::array<std::uint64_t, kLatencyBounds.size() + 1> buckets{};
  double sum_s = 0;
  /// What is no number counts nothing.
  void add(double ms);
};

/// What users got of one arm.
struct ArmFigures {
  std::uint64_t ok = 0, failed = 0, excluded = 0;
  LatencyFigures first_token{}, total{};  ///< of answered requests
};

/// One model as it stands, kept by the loop.
struct ModelStanding {
  std::string model{};
  double share = 0;              ///< of the candidate in the route that is desired
  bool agrees = false;           ///< the route was read back as desired
  std::string state{}, stage{};  ///< of the promotion that holds it; "" = none does
  bool guarded = false, alarming = false;
  bool watched = false;                ///< a stage runs that live telemetry decides: shadow or canary
  std::int64_t telemetry_age_ms = -1;  ///< of the model's newest window; -1 = none since the daemon started
};

struct ModelFigures {
  ModelStanding standing{};
  std::uint64_t rollbacks = 0;       ///< candidates and versions that lost the traffic they had
  std::uint64_t alarms = 0;          ///< raised by its guards
  std::array<ArmFigures, 2> arms{};  ///< incumbent, candidate
  std::shared_ptr<const DecisionFigures> decision{}, guard{};
};

/// What is counted since the start of the daemon, and every model as it stands.
struct LiveSnapshot {
  std::int64_t seen_us = 0;  ///< when the loop told of its models last; 0 = not yet
  std::vector<ModelFigures> models{};
  std::uint64_t models_left_out = 0;                                        ///< beyond kMaxFigureModels
  std::map<std::string, std::uint64_t, std::less<>> entries{};              ///< by kind
  std::map<std::string, std::uint64_t, std::less<>> ended{};                ///< promotions by outcome
  std::map<std::pair<std::string, std::string>, std::uint64_t> verdicts{};  ///< by stage and verdict
  std::map<std::string, std::uint64_t, std::less<>> skipped{};  ///< fire times of schedules by why
  std::uint64_t rollbacks = 0, alarms = 0;                      ///< of all models
};

}  // namespace driftgate::pipeline
