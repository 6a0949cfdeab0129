#pragma once

#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/partial/partial_row.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// A log-probability above this is not a rounding error of 0, and so not the logarithm of a probability.
inline constexpr double kPositiveLogprob = 1e-6;

/// Names of the findings (docs/design/measurement.md, "Checks of captures"), as in CaptureFinding::name.
inline constexpr const char* kRoundedToBf16 = "rounded_to_bf16";
inline constexpr const char* kPositiveLogprobs = "positive_logprobs";
inline constexpr const char* kOffByOne = "off_by_one";
inline constexpr const char* kProcessedLogprobs = "processed_logprobs";
inline constexpr const char* kMassOverOne = "mass_over_one";
inline constexpr const char* kUnknownRows = "unknown_rows";

/// Checks the log-probabilities of two comparable partial captures for signs that they are not what they
/// should be. A finding that *decides* makes every clause over the figures an error.
///
/// - rounded_to_bf16: the low 16 bits of every non-zero value are zero. Does not decide; the bounds of the
///   figures are widened by the rounding.
/// - positive_logprobs: values above kPositiveLogprob. Decides.
/// - mass_over_one: lists whose probabilities sum to more than 1 by more than the error of their
///   log-probabilities (`logprob_error`) can explain; rounding to bf16 alone can turn 1 into 1.002. Decides.
/// - off_by_one: the log-probabilities of the target tokens agree far better with the neighbouring rows of
///   the other kernel, or of the lists in the same capture, than with their own rows. Decides.
/// - processed_logprobs: the values of one kernel are those of the other divided by a temperature, or its
///   lists hold the whole mass where those of the other leave a tail, as after a sampling filter. Decides.
[[nodiscard]] std::vector<CaptureFinding> check_logprobs(const Capture& train, const Capture& inf);

/// The error of the log-probabilities of a capture: that of float32, or of bf16 where they were rounded to
/// it, plus the absolute error that the metadata `logprob_error` states, in nats; and the rounding of the
/// softmax in the type that the metadata `softmax_dtype` states. Errors: invalid_capture when the former is
/// not a number from 0 to 10 or the latter no known type.
[[nodiscard]] schema::Result<LogprobError> logprob_error(const Capture& capture);

}  // namespace driftgate::gpu
