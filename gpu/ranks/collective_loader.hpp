#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/ranks/collective.hpp"

namespace driftgate::gpu {

inline constexpr const char* kMpiLibrary = "libdriftgate_mpi.so";
inline constexpr const char* kNcclLibrary = "libdriftgate_nccl.so";

/// Whether an MPI launcher (mpirun, or srun with PMIx) started this process.
[[nodiscard]] bool started_by_mpi();
/// This process's number among those of the job on this host, as the launcher says; 0 without one.
[[nodiscard]] std::uint32_t local_rank();
/// How many processes of the job are on this host; 1 when the launcher does not say.
[[nodiscard]] std::uint32_t local_size();

/// Every process of the MPI job is a rank. The library is looked for beside the program and then where the
/// loader looks. Errors: unavailable (no such library, by name and reason), unsupported (of another version),
/// deadline_exceeded.
[[nodiscard]] schema::Result<std::unique_ptr<Collective>> open_mpi(std::chrono::milliseconds timeout,
                                                                   const std::string& library = kMpiLibrary);

/// The same ranks as those of `bootstrap`, which carries the id and must outlive the result, with bytes
/// exchanged between the CUDA devices that NCCL knows. Every rank has a device of its own. Errors as above.
[[nodiscard]] schema::Result<std::unique_ptr<Collective>> open_nccl(
    Collective& bootstrap, std::int32_t device, std::chrono::milliseconds timeout,
    const std::string& library = kNcclLibrary);

}  // namespace driftgate::gpu
