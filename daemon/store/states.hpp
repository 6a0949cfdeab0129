#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "schema/error.hpp"

namespace driftgate::store {

/// States of a promotion (docs/design/pipeline.md, "States of a promotion").
enum class PromotionState : std::uint8_t {
  queued,
  running,
  paused,
  awaiting_approval,
  inconclusive,
  rolling_back,
  finalizing,
  succeeded,  ///< the first of the terminal states
  rejected,   ///< a clause was violated
  errored,
  aborted,
  expired,
  superseded,
};

/// What users have seen of the candidate; separate from the state.
enum class Traffic : std::uint8_t { never_exposed, reverted, live };

/// A stage run is running until it ends with one of the four verdicts or is stopped by a decision from
/// outside.
enum class StageRunState : std::uint8_t { running, pass, violated, inconclusive, error, stopped };

enum class JobState : std::uint8_t { pending, running, done, failed, cancelled };

enum class Decision : std::uint8_t { approve, reject, waive };

template <typename T>
concept StoredState = std::same_as<T, PromotionState> || std::same_as<T, Traffic> ||
    std::same_as<T, StageRunState> || std::same_as<T, JobState> || std::same_as<T, Decision>;

/// The name of a state, as it is stored.
template <StoredState T>
[[nodiscard]] std::string_view to_string(T state);
/// Inverse of to_string; `invalid_argument` naming the text for anything else.
template <StoredState T>
[[nodiscard]] schema::Result<T> parse_state(std::string_view text);

/// succeeded, rejected, errored, aborted, expired or superseded: the promotion never changes again.
[[nodiscard]] bool is_terminal(PromotionState state);
/// Neither queued nor terminal: it holds the model, of which there is at most one (enforced by an index).
[[nodiscard]] bool holds_model(PromotionState state);

}  // namespace driftgate::store
