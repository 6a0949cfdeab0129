#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

namespace driftgate::gpu {

/// The name of the finding that holds the result for `what` ("logits", "logprobs", "tokens"):
/// "bits_of_logits" and so on.
[[nodiscard]] std::string bits_finding(const std::string& what);
/// Name of the finding that two captures of the same rows hold different target tokens.
inline constexpr const char* kOtherTokens = "other_tokens";

/// One row in which two captures differ first, and how.
struct BitDifference {
  std::uint64_t row = 0;  ///< among all rows
  std::int64_t sequence = 0, position = 0;
  std::string tensor;                ///< by its name in the capture: "logits", "topk_logprobs" …
  DType dtype{};                     ///< of that tensor
  std::uint64_t element = 0;         ///< of that tensor's row
  std::uint64_t train = 0, inf = 0;  ///< the bit patterns of the two elements
};

/// Compares rows of two captures bit by bit, row by row, part after part, for each name in `wanted`. "logits"
/// compares full logits; "logprobs" compares the tensor `logprobs` and the ids and log-probabilities of
/// lists, where both captures hold them; "tokens" compares `token_ids`. Values are compared as bits, not as
/// numbers: −0 and 0 differ, as do NaNs with different payloads; NaNs with equal bits are equal.
class BitComparison {
 public:
  explicit BitComparison(const std::vector<std::string>& wanted);
  /// Compares the next rows. Errors: those of Capture::check_unchanged; unsupported for logits on a device.
  [[nodiscard]] schema::Result<void> add(const Capture& train, const Capture& inf);
  /// Adds one finding for each name to `table`: `count` of `of` rows differ, and `text` names the first, with
  /// its sequence, its position, the first element that differs and both bit patterns. Where the captures do
  /// not hold the data, or hold it in different types, `of` is 0 and `text` gives the reason.
  void finish(MeasurementTable& table) const;

 private:
  struct Part {
    std::string what, refused;
    std::uint64_t differing = 0;
    std::optional<BitDifference> first;
  };
  std::vector<Part> parts_;
  std::uint64_t rows_ = 0;
};

/// Compares two whole captures of the same rows and adds the findings of a BitComparison.
[[nodiscard]] schema::Result<void> compare_bits(const Capture& train, const Capture& inf,
                                                const std::vector<std::string>& wanted,
                                                MeasurementTable& table);

/// The first row of two captures whose target tokens differ.
struct OtherTokens {
  std::uint64_t row = 0;
  std::int64_t train = 0, inf = 0;
};
/// That row if `wanted` contains "tokens" and there is one. Errors: not_comparable where rows, checkpoints or
/// settings differ, too.
[[nodiscard]] schema::Result<std::optional<OtherTokens>> find_other_tokens(
    const Capture& train, const Capture& inf, const std::vector<std::string>& wanted);
/// What stands for the figures of a row of such captures: NaN in all of them.
[[nodiscard]] driftgate_row unknown_row();
/// The table of such captures without the results of the bit comparison. `empty` has identities, parameters
/// and thresholds; `sequences` and `positions` have an element for each row.
[[nodiscard]] schema::Result<MeasurementTable> other_tokens_table(
    MeasurementTable empty, const OtherTokens& first, std::span<const std::int64_t> sequences,
    std::span<const std::int64_t> positions, const Corpus* corpus,
    const std::optional<std::vector<SliceAttributes>>& slices);

/// If `wanted` contains "tokens" and the two captures hold different target tokens for the same rows, returns
/// a table that holds only the results of the bit comparison: every other figure has n = 0, and the deciding
/// finding kOtherTokens gives the reason. Returns nothing where the tokens agree or are not wanted. Errors:
/// not_comparable where rows, checkpoints or settings differ.
[[nodiscard]] schema::Result<std::optional<MeasurementTable>> measure_other_tokens(
    const Capture& train, const Capture& inf, const Corpus* corpus, const MeasureOptions& options,
    const std::vector<std::string>& wanted);

/// Calls `measure` and adds the findings of compare_bits, check_columns and check_support; returns the table
/// of measure_other_tokens instead where there is one.
[[nodiscard]] schema::Result<MeasurementTable> measure_with_bits(
    const Capture& train, const Capture& inf, const Corpus* corpus, const MeasureOptions& options,
    const std::vector<std::string>& wanted, const Progress& progress = {}, const RowSink& sink = {});

}  // namespace driftgate::gpu
