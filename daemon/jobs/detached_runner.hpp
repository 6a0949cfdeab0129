#pragma once

#include <memory>

#include "daemon/jobs/job.hpp"

namespace driftgate::jobs {

/// The same runner on a thread of its own: orders are carried out one after another, and `place`, `progress`
/// and `running` tell what that thread saw last. No call looks at a disk or waits for one that hangs, only the
/// destructor does: it has cancels and forgets carried out first. `folder` is asked of the inner runner
/// directly. A start that the inner runner has no room for is tried again; too many jobs are `unavailable`.
[[nodiscard]] std::unique_ptr<JobRunner> detached(std::unique_ptr<JobRunner> inner);

}  // namespace driftgate::jobs
