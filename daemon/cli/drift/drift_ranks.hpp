#pragma once

#include "daemon/cli/drift/drift_command.hpp"
#include "gpu/ranks/rank_session.hpp"
#include "schema/error.hpp"

namespace driftgate::cli {

/// The ranks that the options of one `driftgate drift` ask for. In an MPI job every process calls this.
[[nodiscard]] schema::Result<gpu::RankSession> start_ranks(const DriftArgs& args);

/// Prints the error where it concerns this rank, and tells the others.
void fail(gpu::RankSession& ranks, const schema::Error& error);

}  // namespace driftgate::cli
