#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "stages/clauses/floor.hpp"

namespace driftgate::stages {

/// Faults that can be recognised in a measurement table.
enum class Pattern : std::uint8_t {
  nonfinite,            ///< NaN or infinite logits
  truncated_support,    ///< a sampling filter was applied before the capture
  off_by_one,           ///< the rows of one capture are shifted by one position
  permuted_columns,     ///< the right probabilities are on the wrong tokens
  scaled_logits,        ///< tokens are ranked alike, but the distribution is too sharp or too flat
  bf16_logprobs,        ///< log-probabilities rounded to bf16 before they were written
  wrong_weights,        ///< in every sequence, drift that no rounding explains
  one_slice,            ///< drift that is largest in one slice
  some_sequences,       ///< drift that is largest in some sequences, which no slice describes
  grows_with_position,  ///< drift that accumulates along a sequence, or begins at some position
  attention_scores,     ///< drift except where there is only one token to attend to
  sequence_start,       ///< drift that is largest at the beginning of sequences and fades
  some_weights,         ///< in every sequence, drift as large as that of coarse rounding
  column_range,         ///< drift in a range of columns of the head alone
  penalty,              ///< tokens that were there before are less likely, or more
  leaks_target,         ///< K_inf knows the token that it is to predict
};
[[nodiscard]] std::string_view to_string(Pattern pattern);  ///< "off_by_one" and so on

/// A fault that would explain the figures. `looks_like` and `because` complete the sentence "it looks like …,
/// because …"; `next` says what to examine.
struct Suspicion {
  Pattern pattern{};
  std::string where;  ///< "all sequences", "21 of 210 sequences", "language=de"
  std::string looks_like, because, next;
  std::map<std::string, double> figures;
};

/// What the disagreement of two kernels looks like. The thresholds are a matter of judgement (docs/drift.md):
/// a suspicion tells where to look first and is not a verdict.
struct Diagnosis {
  std::string summary;                ///< one or two sentences
  std::vector<Suspicion> suspicions;  ///< the most telling first; empty: no pattern was recognised
};

/// Looks for the patterns above. A drift that is about as small as one of the floors, or as what rounding in
/// float32 leaves, is not examined further unless non-finite values or rounded log-probabilities were found.
/// Patterns that rounding in bf16 can produce as well are reported only for a drift that is larger than it
/// leaves.
[[nodiscard]] Diagnosis diagnose(const gpu::MeasurementTable& table, const Floors& floors = {});

/// A JSON object with `summary`, `suspicions` and `profile`. The profile has `by_position`, `by_entropy` and
/// `by_probability`: the buckets with rows or tokens, each with its lower edge `from`, its counts and its
/// means.
[[nodiscard]] std::string diagnosis_json(const Diagnosis& diagnosis, const gpu::MeasurementTable& table);

}  // namespace driftgate::stages
