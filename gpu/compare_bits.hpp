#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// The name of the finding in which a table says how the bits of `what` compare: "bits_of_logits" …
[[nodiscard]] std::string bits_finding(const std::string& what);
/// Captures of the same rows that hold different tokens.
inline constexpr const char* kOtherTokens = "other_tokens";

/// Compares the bytes of two captures of the same rows, row by row, in what `wanted` names, and adds a
/// finding for each to `table`: `count` rows of `of` differ, and `text` says which is the first, with its
/// sequence, its position, the first element that differs and both bit patterns. "logits" are those of
/// captures of full logits; "logprobs" the tensor `logprobs` and the ids and log-probabilities of lists,
/// whichever both captures hold; "tokens" the `token_ids`. Bits are compared and nothing is read as a number:
/// −0 and 0 differ, as do NaN of different payloads, and NaN of equal bits are equal. Where captures do not
/// hold it, or hold it in different types, `of` is 0 and `text` says why. Errors: what check_unchanged says.
[[nodiscard]] schema::Result<void> compare_bits(const Capture& train, const Capture& inf,
                                                const std::vector<std::string>& wanted,
                                                MeasurementTable& table);

/// Where `wanted` names the tokens and two captures of the same rows hold different ones: the table of them,
/// of which nothing can be said but how their bits compare. Every other figure has n = 0, and the finding
/// kOtherTokens, which decides, says why. Nothing where tokens are alike or not wanted. Errors: rows,
/// checkpoints or settings that are not comparable.
[[nodiscard]] schema::Result<std::optional<MeasurementTable>> measure_other_tokens(
    const Capture& train, const Capture& inf, const Corpus* corpus, const MeasureOptions& options,
    const std::vector<std::string>& wanted);

/// `measure`, and what compare_bits finds beside it; the table of measure_other_tokens where that is one.
[[nodiscard]] schema::Result<MeasurementTable> measure_with_bits(
    const Capture& train, const Capture& inf, const Corpus* corpus, const MeasureOptions& options,
    const std::vector<std::string>& wanted, const Progress& progress = {}, const RowSink& sink = {});

}  // namespace driftgate::gpu
