#include "daemon/pipeline/stages/observations.hpp"

namespace driftgate::pipeline {
namespace {

stages::RequestOutcome outcome_of(route::Outcome outcome) {
  using stages::RequestOutcome;
  if (outcome == route::Outcome::ok) return RequestOutcome::ok;
  return outcome == route::Outcome::failed ? RequestOutcome::failed : RequestOutcome::excluded;
}

}  // namespace

stages::CanaryObservation observation_of(const route::Observation& seen) {
  stages::CanaryObservation observation;
  observation.key_hash = seen.key_hash;
  observation.keyless = seen.keyless;
  observation.pinned = seen.pinned;
  observation.candidate = seen.candidate;
  observation.candidate_bp = seen.candidate_bp;
  observation.slice = seen.slice;
  observation.withheld = seen.withheld;
  observation.outcome = outcome_of(seen.outcome);
  observation.routed_us = seen.routed_us;
  if (seen.outcome == route::Outcome::ok)
    observation.latency = {seen.ttft_ms, seen.inter_token_ms, seen.total_ms};
  observation.prompt_chars = seen.prompt_chars;
  return observation;
}

}  // namespace driftgate::pipeline
