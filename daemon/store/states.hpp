#pragma once

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
  succeeded,
  rejected,  ///< a clause was violated
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

[[nodiscard]] std::string_view to_string(PromotionState state);
[[nodiscard]] std::string_view to_string(Traffic traffic);
[[nodiscard]] std::string_view to_string(StageRunState state);
[[nodiscard]] std::string_view to_string(JobState state);
[[nodiscard]] std::string_view to_string(Decision decision);

/// Inverse of to_string; `invalid_argument` naming the text for anything else.
[[nodiscard]] schema::Result<PromotionState> parse_promotion_state(std::string_view text);
[[nodiscard]] schema::Result<Traffic> parse_traffic(std::string_view text);
[[nodiscard]] schema::Result<StageRunState> parse_stage_run_state(std::string_view text);
[[nodiscard]] schema::Result<JobState> parse_job_state(std::string_view text);
[[nodiscard]] schema::Result<Decision> parse_decision(std::string_view text);

/// succeeded, rejected, errored, aborted, expired or superseded: nothing happens any more.
[[nodiscard]] bool is_terminal(PromotionState state);
/// Neither queued nor terminal: it holds the model, of which there is at most one (enforced by an index).
[[nodiscard]] bool holds_model(PromotionState state);

}  // namespace driftgate::store
