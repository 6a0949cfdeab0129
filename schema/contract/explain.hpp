#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/contract/least_n.hpp"

namespace driftgate::schema {

/// What one clause demands in one stage.
struct Demand {
  std::string clause;  ///< address
  Severity severity{};
  Requirement requirement{};
  std::string words;  ///< "mean tv at most 0.02, on each critical slice"
  LeastN needs;
};

struct StageDemands {
  Stage stage{};
  std::vector<std::string> plan;  ///< how the stage runs, in sentences
  std::vector<Demand> demands;    ///< empty: nothing demanded
};

/// What a contract demands, for a person (docs/design/contract.md, "Explain").
struct Explanation {
  std::string name, digest, train_kernel, inf_kernel;
  std::vector<StageDemands> stages;
  /// docs/design/measurement.md, "Link 7: inversion": the largest span that keeps the reward tolerance over
  /// max_tokens, 4ρ/((R_max − R_min)√T); only when reward, a reward clause and max_tokens are stated.
  std::optional<double> largest_span;
  /// Link 6: min(log(1 + c), −log(1 − c)), and what is left of it at the span the contract allows.
  std::optional<double> clip_room, clip_room_left;
  std::optional<double> allowed_span;    ///< largest limit of a logit_span clause
  std::string allowed_span_clause;       ///< its address
  std::vector<std::string> bound_chain;  ///< the same in sentences
  std::vector<std::string> escalation;   ///< Π in sentences
};

[[nodiscard]] Explanation explain(const Contract& contract);
[[nodiscard]] std::string to_text(const Explanation& explanation);
[[nodiscard]] std::string to_json(const Explanation& explanation);

/// The demand of a clause in plain words.
[[nodiscard]] std::string demand_text(const Clause& clause);

}  // namespace driftgate::schema
