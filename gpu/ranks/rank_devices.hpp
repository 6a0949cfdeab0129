#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::gpu {

inline constexpr std::uint32_t kMaxDevices = 64;

/// The devices that `text` names: "cpu", "cuda" (device 0), "cuda:all" (as many as can be opened),
/// "cuda:0,2". Errors: invalid_argument for other words and for a device named twice; what Backend::open says
/// when there is no CUDA device at all.
[[nodiscard]] schema::Result<std::vector<std::string>> parse_devices(const std::string& text);

/// One device for each rank of this process. `ranks` = 0 means as many as there are devices; the CPU may have
/// any number of ranks, a CUDA device one.
[[nodiscard]] schema::Result<std::vector<std::string>> devices_of_ranks(const std::string& text,
                                                                        std::uint32_t ranks);

/// The device of a process that is the `local`-th of its host: "cuda:all" gives it the device of that number,
/// a list its `local`-th device.
[[nodiscard]] schema::Result<std::string> device_of_process(const std::string& text, std::uint32_t local);

}  // namespace driftgate::gpu
