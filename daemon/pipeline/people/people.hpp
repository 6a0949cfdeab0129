#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/context.hpp"

// What people ask of promotions and models. Each function is one event: it decides, commits, and leaves its
// effects in the queue.
namespace driftgate::pipeline::people {

using Done = schema::Result<void>;

/// One person's approval; with the last one that the step needs, the promotion continues.
[[nodiscard]] Done approve(Context& context, const std::string& actor, const std::string& id,
                           const std::string& digest, const std::string& reason);
/// One person's waiver of one clause; with the last that the stage needs, the promotion goes past the stage,
/// whose verdict stays inconclusive.
[[nodiscard]] Done waive(Context& context, const std::string& actor, const std::string& id,
                         const std::string& clause, const std::string& digest, const std::string& reason);
[[nodiscard]] Done abort(Context& context, const std::string& actor, const std::string& id,
                         const std::string& reason);
[[nodiscard]] Done pause(Context& context, const std::string& actor, const std::string& id,
                         const std::string& reason);
[[nodiscard]] Done resume(Context& context, const std::string& actor, const std::string& id,
                          const std::string& reason);
[[nodiscard]] Done lift_hold(Context& context, const std::string& actor, const std::string& model,
                             const std::string& reason);
[[nodiscard]] Done lift_block(Context& context, const std::string& actor, const std::string& id,
                              const std::string& reason);

/// Asks for the end of a job that runs; its promotion then ends as errored. Asked before, it changes
/// nothing. `conflict` when the job has ended.
[[nodiscard]] Done cancel_job(Context& context, const std::string& actor, const std::string& id,
                              const std::string& reason);

// A rollback: of a promotion that has not ended, or of one that succeeded and serves.
[[nodiscard]] Done roll_back(Context& context, Live& live, const std::string& actor,
                             const std::string& reason);
/// A promotion that succeeded, loaded to be reverted; `conflict` when its candidate does not serve any more.
/// Nothing when it was reverted before.
[[nodiscard]] schema::Result<std::optional<Live>> serving_promotion(Context& context, const std::string& id);
/// Ends the promotion that holds the model of `served`, since its baseline goes; the hold commits with that
/// end, so that a queued promotion does not start on the bad baseline.
[[nodiscard]] Done end_successor(Context& context, const Live& served, const std::string& actor);
[[nodiscard]] Done revert(Context& context, Live& served, const std::string& actor,
                          const std::string& reason);

/// Refuses a decision on the actor's own request, and records the attempt.
[[nodiscard]] Done refuse_own(Context& context, const Live& live, const std::string& actor,
                              schema::EvidenceKind kind, schema::EntryValue::Object body);
/// Clauses of stages that were passed by waivers.
[[nodiscard]] schema::Result<std::vector<std::string>> waived_clauses(Context& context, const Live& live);
/// `conflict` with who, when and why when the pair may not be promoted under the contract.
[[nodiscard]] Done refuse_blocked(store::Reader& reader, const std::string& checkpoint,
                                  const std::string& kernel, const std::string& contract);

}  // namespace driftgate::pipeline::people

namespace driftgate::pipeline {

/// The step that the canary is at has all approvals that it needs.
[[nodiscard]] schema::Result<bool> is_approved(Context& context, const Live& live);

}  // namespace driftgate::pipeline
