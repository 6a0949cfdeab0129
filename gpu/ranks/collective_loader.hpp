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
/// The number of processes of the job as the launcher states it; 1 when it does not.
[[nodiscard]] std::uint32_t launched_size();
/// The number of this process among those of the job on this host, as the launcher states it; 0 without one.
[[nodiscard]] std::uint32_t local_rank();
/// The number of processes of the job on this host; 1 when the launcher does not state it.
[[nodiscard]] std::uint32_t local_size();

/// Opens the collective of an MPI job, in which every process is a rank. The library is searched beside the
/// program, then along the search path of the loader. Errors: unavailable (the library cannot be loaded, with
/// the reason), unsupported (a library of another version), deadline_exceeded.
[[nodiscard]] schema::Result<std::unique_ptr<Collective>> open_mpi(std::chrono::milliseconds timeout,
                                                                   const std::string& library = kMpiLibrary);

/// Opens a collective with the ranks of `bootstrap` that exchanges bytes between CUDA devices over NCCL.
/// `bootstrap` carries the NCCL id and must outlive the result. Each rank must have a CUDA device of its own,
/// with index `device`. Errors as above.
[[nodiscard]] schema::Result<std::unique_ptr<Collective>> open_nccl(
    Collective& bootstrap, std::int32_t device, std::chrono::milliseconds timeout,
    const std::string& library = kNcclLibrary);

}  // namespace driftgate::gpu
