#pragma once

#include <cstdint>
#include <vector>

namespace driftgate::gpu::mpi {

/// Where a rank runs: its process and a digest of host and process namespace.
struct Peer {
  std::int64_t pid = 0;
  std::uint64_t host = 0;
};

[[nodiscard]] Peer this_process();
/// Whether a process that is on the same host as this one has ended.
[[nodiscard]] bool has_ended(const Peer& peer);

/// From now on SIGTERM, which launchers send before they kill, is remembered instead of ending the process at
/// once, so that the wait that it ends can say what it was for. A handler that is there already stays.
void remember_termination();
[[nodiscard]] bool termination_asked();

}  // namespace driftgate::gpu::mpi
