#pragma once

#include <string>

#include "daemon/jobs/worker.hpp"
#include "daemon/pipeline/context.hpp"

namespace driftgate::pipeline {

/// Both engines as the rescore job asks them, and the spool of mirrored requests that it reads.
[[nodiscard]] schema::Result<jobs::RescorePayload> rescore_payload(Context& context, const Live& live,
                                                                   const std::string& spool);

/// Carries out a `sample` order: while it is in force, more requests are mirrored, and when it ends the pairs
/// are scored by both engines, so that their log-probabilities are evidence. Called as time passes: mirroring
/// → stopping (mirrored answers are still in flight) → a job.
void follow_sampling(Context& context, Live& live);

}  // namespace driftgate::pipeline
