#pragma once

#include <cstdint>

#include "gpu/backend.h"

/// What every backend demands of its caller (gpu/backend.h), in one place: the limits, and what is wrong with
/// an input in words, or null when nothing is.
namespace driftgate::gpu {

inline constexpr std::uint32_t kMaxThreads = 1'024;
inline constexpr std::uint32_t kMaxTopK = 1'024;
inline constexpr std::uint32_t kMaxVocabulary = 1U << 22;  ///< columns of a row
inline constexpr double kLeastTemperature = 1e-6;

/// Of `open`, whose `engine` is where the engine is written.
[[nodiscard]] const char* fault_of_config(const driftgate_config* config, const void* engine);

/// Of `measure`; `complete`: engine and results were given.
[[nodiscard]] const char* fault_of_batch(const driftgate_batch* batch, bool complete);

/// Of `shard_pass1` and `shard_pass2`; `complete`: everything else was given.
[[nodiscard]] const char* fault_of_part(const driftgate_batch* batch, const driftgate_shard* shard,
                                        bool complete);

/// Writes the message, if there is room, and returns the status.
std::int32_t refuse(std::int32_t status, const char* text, char* message, std::uint64_t message_bytes);

}  // namespace driftgate::gpu
