#pragma once

#include <cstdint>

#include "gpu/backend/backend.h"

/// What every backend demands of its caller (gpu/backend/backend.h), in one place: the limits, and what is wrong with
/// an input in words, or null when nothing is.
namespace driftgate::gpu {

inline constexpr std::uint32_t kMaxThreads = 1'024;
inline constexpr std::uint32_t kMaxTopK = 1'024;
inline constexpr std::uint32_t kMaxVocabulary = 1U << 22;  ///< columns of a row
inline constexpr double kLeastTemperature = 1e-6;
inline constexpr std::uint32_t kMaxWidth = 65'536;  ///< of hidden states

/// A logit of −10⁸ is no logit but a mark of a masked token (the least float32, say), and beside it float64
/// does not hold what logits differ by. Where the two kernels' logits of a column differ by more, and none is
/// above 10⁸, each counts as −10⁸ at least in every figure but logit_max_abs and logit_span; its probability
/// is 0 all the same. Over the temperature, and farther where that is below 1.
inline constexpr double kSentinelBound = 1e8;

/// Of `open`, whose `engine` is where the engine is written.
[[nodiscard]] const char* fault_of_config(const driftgate_config* config, const void* engine);

/// Of `measure`; `complete`: engine and results were given.
[[nodiscard]] const char* fault_of_batch(const driftgate_batch* batch, bool complete);

/// Of `shard_pass1` and `shard_pass2`; `complete`: everything else was given.
[[nodiscard]] const char* fault_of_part(const driftgate_batch* batch, const driftgate_shard* shard,
                                        bool complete);

/// Of `hidden_open`; `complete`: engine and heads were given.
[[nodiscard]] const char* fault_of_heads(const driftgate_hidden_heads* heads, bool complete);

/// Of `hidden_measure` under heads of `vocabulary` tokens, 0 when there are none yet; `complete`: engine and
/// results were given.
[[nodiscard]] const char* fault_of_hidden(const driftgate_hidden_batch* batch, std::uint32_t vocabulary,
                                          bool complete);

/// Writes the message, if there is room, and returns the status.
std::int32_t refuse(std::int32_t status, const char* text, char* message, std::uint64_t message_bytes);

}  // namespace driftgate::gpu
