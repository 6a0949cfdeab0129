#pragma once

#include <cstdint>
#include <vector>

namespace driftgate::gpu::mpi {

/// Where a rank runs: its process id, and a digest of its host and process namespace.
struct Peer {
  std::int64_t pid = 0;
  std::uint64_t host = 0;
};

[[nodiscard]] Peer this_process();
/// Whether a process that is on the same host as this one has ended.
[[nodiscard]] bool has_ended(const Peer& peer);

/// Installs a handler for SIGTERM, unless there is one already. Launchers send SIGTERM before they kill a
/// job; the handler records it instead of ending the process, so that the current wait can report which rank
/// it waited for.
void record_termination();
/// Whether SIGTERM was recorded.
[[nodiscard]] bool termination_requested();

}  // namespace driftgate::gpu::mpi
