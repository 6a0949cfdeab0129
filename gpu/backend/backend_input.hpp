#pragma once

#include <cstdint>

#include "gpu/backend/backend.h"

/// Checks of the arguments of a backend (gpu/backend/backend.h), shared by all backends. Each function
/// `fault_of_…` returns a description of the first fault, or null when there is none.
namespace driftgate::gpu {

inline constexpr std::uint32_t kMaxThreads = 1'024;
inline constexpr std::uint32_t kMaxTopK = 1'024;
inline constexpr std::uint32_t kMaxVocabulary = 1U << 22;  ///< columns of a row
inline constexpr double kLeastTemperature = 1e-6;
inline constexpr std::uint32_t kMaxWidth = 65'536;  ///< of hidden states

/// A logit of −10⁸ or below is a sentinel for a masked token (such as the lowest float32); differences of
/// other logits from it do not fit into float64. Where the logits of the two kernels in a column differ by
/// more than this bound and no logit of the row exceeds it, each logit counts as at least −10⁸ in every
/// figure but logit_max_abs and logit_span; its probability is 0 in any case. Applies to logits divided by
/// the temperature; at temperatures below 1 the bound is divided by the temperature too. See
/// docs/design/measurement.md, "Masked tokens".
inline constexpr double kSentinelBound = 1e8;

/// Arguments of `open`. `engine`: the place where the engine is stored.
[[nodiscard]] const char* fault_of_config(const driftgate_config* config, const void* engine);

/// Arguments of `measure`. `complete`: whether engine and results are not null.
[[nodiscard]] const char* fault_of_batch(const driftgate_batch* batch, bool complete);

/// Arguments of `shard_pass1` and `shard_pass2`. `complete`: whether all other pointers are not null.
[[nodiscard]] const char* fault_of_part(const driftgate_batch* batch, const driftgate_shard* shard,
                                        bool complete);

/// Arguments of `hidden_open`. `complete`: whether engine and heads are not null.
[[nodiscard]] const char* fault_of_heads(const driftgate_hidden_heads* heads, bool complete);

/// Arguments of `hidden_measure` for heads of `vocabulary` tokens (0: no heads yet). `complete`: whether
/// engine and results are not null.
[[nodiscard]] const char* fault_of_hidden(const driftgate_hidden_batch* batch, std::uint32_t vocabulary,
                                          bool complete);

/// Writes the message, if there is room for it, and returns the status.
std::int32_t refuse(std::int32_t status, const char* text, char* message, std::uint64_t message_bytes);

}  // namespace driftgate::gpu
