#pragma once

#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/partial/partial_row.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// A log-probability over this is no rounding of 0: it is not a natural logarithm of a probability.
inline constexpr double kPositiveLogprob = 1e-6;

/// Names of the checks of docs/design/measurement.md, "Checks of captures", as they stand in
/// CaptureFinding::name.
inline constexpr const char* kRoundedToBf16 = "rounded_to_bf16";
inline constexpr const char* kPositiveLogprobs = "positive_logprobs";
inline constexpr const char* kOffByOne = "off_by_one";
inline constexpr const char* kProcessedLogprobs = "processed_logprobs";
inline constexpr const char* kMassOverOne = "mass_over_one";
inline constexpr const char* kUnknownRows = "unknown_rows";

/// What the log-probabilities of two comparable partial captures say of themselves:
///
/// - rounded_to_bf16: the low 16 bits of every non-zero value are zero. Decides nothing: the figures' bounds
///   are widened by the rounding.
/// - positive_logprobs: values over kPositiveLogprob. Decides.
/// - mass_over_one: lists whose probabilities sum to more than 1, by more than the error of their
///   log-probabilities (`logprob_error`) explains: bf16 alone makes 1.002 of 1. Decides.
/// - off_by_one: the realised tokens' log-probabilities agree far better with the neighbouring rows of the
///   other kernel, or of their own lists, than with their own. Decides.
/// - processed_logprobs: one kernel's values are the other's divided by a temperature, or its lists hold the
///   whole mass where the other's leave a tail: what a sampling filter leaves. Decides.
[[nodiscard]] std::vector<CaptureFinding> check_logprobs(const Capture& train, const Capture& inf);

/// The error of the capture's log-probabilities: float32's, bf16's when they were rounded to it, and what the
/// metadata `logprob_error` states in absolute terms. Errors: invalid_capture for metadata that is no number.
[[nodiscard]] schema::Result<LogprobError> logprob_error(const Capture& capture);

}  // namespace driftgate::gpu
