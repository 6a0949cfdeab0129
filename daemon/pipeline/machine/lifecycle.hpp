#pragma once

#include <string>

#include "daemon/pipeline/change.hpp"

// The states of a promotion from its start to the end of its stages: state × event → Change with its effects.
// Pure: nothing is read, written or called, and what has no meaning in a state is refused or changes nothing.
namespace driftgate::pipeline::machine {

/// The run that begins with an attempt at a stage.
[[nodiscard]] store::StageRunRow new_run(const Facts& facts, schema::Stage stage, std::int64_t attempt);
/// Makes `change` begin an attempt at a stage, in state running.
void go_to_stage(Change& change, const Facts& facts, schema::Stage stage, std::int64_t attempt);
/// The stage after the one that runs; there is none after the canary.
[[nodiscard]] schema::Stage stage_after(schema::Stage stage);

/// queued → running: the baseline is locked and the first stage begins.
[[nodiscard]] Change begin_promotion(const Facts& facts, const std::string& incumbent);
/// A stage of fixed data or shadow has its verdict: the next stage, inconclusive, or the end. `block_id` is
/// used when the policy orders a block.
[[nodiscard]] Change conclude_stage(const Facts& facts, StageConclusion conclusion,
                                    const std::string& block_id);
/// An attempt could not measure: another one, when that may help and attempts are left, else the end.
[[nodiscard]] Change fail_attempt(const Facts& facts, const schema::Error& error, std::string_view what);
/// How long after a failed attempt the next one begins, µs.
[[nodiscard]] std::int64_t retry_delay_us(const Settings& settings, std::int64_t failed_attempt);

/// The route that a shadow stage waited for was read back: it mirrors, or it stops and is rescored.
[[nodiscard]] Change shadow_route_applied(const Facts& facts);

/// Weights stay as they are. Nothing to do when it is paused already.
[[nodiscard]] schema::Result<Change> pause(const Facts& facts, const std::string& actor,
                                           const std::string& reason);
/// Goes on after a pause, or with another attempt of a stage that was inconclusive.
[[nodiscard]] schema::Result<Change> resume(const Facts& facts, const std::string& actor,
                                            const std::string& reason);

}  // namespace driftgate::pipeline::machine
