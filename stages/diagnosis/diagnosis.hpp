#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::stages {

/// Faults that leave a trace which a measurement table shows.
enum class Pattern : std::uint8_t {
  nonfinite,            ///< NaN or infinite logits
  truncated_support,    ///< a sampling filter was applied before the capture
  off_by_one,           ///< rows are compared with their neighbours'
  permuted_columns,     ///< the right probabilities on the wrong tokens
  scaled_logits,        ///< the right order of tokens, too sharp or too flat
  bf16_logprobs,        ///< log-probabilities rounded to bf16 before they were written
  wrong_weights,        ///< drift beyond any rounding, in every sequence
  one_slice,            ///< drift in one slice
  some_sequences,       ///< drift in some sequences that no slice explains
  grows_with_position,  ///< drift that accumulates along a sequence, or begins somewhere in it
  attention_scores,     ///< no drift where there is one token to attend to, drift where there are more
  sequence_start,       ///< drift that is largest where sequences begin and fades
  some_weights,         ///< drift of the size of coarse rounding, in every sequence
};
[[nodiscard]] std::string_view to_string(Pattern pattern);  ///< "off_by_one" …

/// One explanation that fits the figures: it "looks like `looks_like`, because `because`".
struct Suspicion {
  Pattern pattern{};
  std::string where;  ///< "all sequences", "21 of 210 sequences", "language=de"
  std::string looks_like, because, next;
  std::map<std::string, double> figures;
};

/// What the figures of two kernels that disagree look like. Its thresholds are judgement (docs/drift.md):
/// a suspicion is where to look first, not a verdict.
struct Diagnosis {
  std::string summary;                ///< one or two sentences
  std::vector<Suspicion> suspicions;  ///< the most telling first; empty: no known pattern
};

/// Looks for known patterns. A drift that is no larger than a floor has none but those of values that are not
/// finite; without floors nothing is said of a size that the rounding of float32 leaves, nor, by patterns
/// that the rounding of bf16 shows too, of a size that this leaves.
[[nodiscard]] Diagnosis diagnose(const gpu::MeasurementTable& table, const Floors& floors = {});

/// `summary`, `suspicions[]` and `profile` (`by_position`, `by_entropy`, `by_probability`: buckets that hold
/// rows, each with `from`, its counts and its means).
[[nodiscard]] std::string diagnosis_json(const Diagnosis& diagnosis, const gpu::MeasurementTable& table);

}  // namespace driftgate::stages
