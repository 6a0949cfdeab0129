#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/contract/least_n.hpp"

namespace driftgate::schema {

/// What one clause demands in one stage, and how much data it needs there.
struct Demand {
  std::string clause;  ///< address
  Severity severity{};
  Requirement requirement{};
  std::string words;  ///< demand_text of the clause
  LeastN needs;
};

/// What a contract demands in one stage.
struct StageDemands {
  Stage stage{};
  std::vector<std::string> plan;  ///< how the stage runs, one sentence each
  std::vector<Demand> demands;    ///< empty: nothing is demanded
};

/// What a contract demands, for people (docs/design/contract.md, "Explain").
struct Explanation {
  std::string name, digest, train_kernel, inf_kernel;
  std::uint32_t run = 1;  ///< k: the sizes are those of the k-th run of each stage
  std::vector<StageDemands> stages;
  /// The largest logit span that keeps the reward tolerance ρ over T = max_tokens tokens, 4ρ/((R_max −
  /// R_min)·√T), where ρ is the smallest `max` of the reward clauses (docs/design/measurement.md, "Link 7:
  /// inversion"). Absent unless the contract states the reward's range, a reward clause and max_tokens.
  std::optional<double> largest_span;
  /// The room for a policy update under the PPO clip c, min(log(1 + c), −log(1 − c)), and what allowed_span
  /// leaves of it (docs/design/measurement.md, "Link 6: clip budget").
  std::optional<double> clip_room, clip_room_left;
  std::optional<double> allowed_span;    ///< the largest `max` of a logit_span clause
  std::string allowed_span_clause;       ///< the address of that clause
  std::vector<std::string> bound_chain;  ///< the figures above in sentences
  std::vector<std::string> escalation;   ///< the escalation rules in sentences
  std::vector<std::string> guard;        ///< what is watched after a promotion; empty: nothing is
};

/// A contract knows no promotion: sizes are those of a first run, unless another one is asked for. `k` ≥ 1.
[[nodiscard]] Explanation explain(const Contract& contract, std::uint32_t k = 1);
[[nodiscard]] std::string to_text(const Explanation& explanation);
[[nodiscard]] std::string to_json(const Explanation& explanation);

/// The demand of a clause in words, such as "sequence_mean of tv at most 0.02, on each critical slice".
[[nodiscard]] std::string demand_text(const Clause& clause);
/// How much data the demand needs, in words, such as "needs at least 34 sequences at α = 0.0304 (…)".
[[nodiscard]] std::string needs_text(const Demand& demand);

}  // namespace driftgate::schema
