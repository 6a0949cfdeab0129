#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::uint32_t kMaxDevices = 64;

/// Parses a list of devices: "cpu", "cuda" (device 0), "cuda:all" (as many as can be opened), "cuda:0,2".
/// Errors: invalid_argument for other texts and for a device that is listed twice; those of Backend::open
/// when there is no CUDA device at all.
[[nodiscard]] schema::Result<std::vector<std::string>> parse_devices(const std::string& text);

/// The device of each rank of this process. `ranks` = 0: one rank for each device. Any number of ranks may
/// share the CPU; a CUDA device has one rank.
[[nodiscard]] schema::Result<std::vector<std::string>> devices_of_ranks(const std::string& text,
                                                                        std::uint32_t ranks);

/// Whether a launcher gave this process devices that the other processes of its host do not see: srun with
/// --gpus-per-task, or one visible device in a job of Slurm. Their numbers begin at 0 in each process.
[[nodiscard]] bool has_own_devices();

/// The device of the process with number `local` on its host: the CUDA device with this index for "cuda:all",
/// the element with this index of a list.
[[nodiscard]] schema::Result<std::string> device_of_process(const std::string& text, std::uint32_t local);

}  // namespace driftgate::gpu
