#pragma once

#include <cstdint>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

/// Steps of a measurement that are shared by one engine on whole rows and by several engines on parts of
/// rows.
namespace driftgate::gpu {

/// Walks the segments of one capture in row order.
class LogitsCursor {
 public:
  explicit LogitsCursor(const Capture& capture) : capture_(capture) {}
  /// The number of rows, from `row` on, that are contiguous in memory. Calls must not go back to earlier
  /// rows.
  std::uint64_t available(std::uint64_t row) {
    while (row >= segment().first_row + segment().rows) ++at_;
    return segment().first_row + segment().rows - row;
  }
  [[nodiscard]] driftgate_logits view(std::uint64_t row) const;

 private:
  [[nodiscard]] const CaptureSegment& segment() const { return capture_.segments()[at_]; }
  const Capture& capture_;
  std::size_t at_ = 0;
};

/// The number of rows in a batch of whole rows.
[[nodiscard]] std::uint64_t batch_rows(const Capture& train);
/// Fills in the attributes of the sequences from the corpus. Errors: not_comparable where the corpus does not
/// contain a sequence.
[[nodiscard]] schema::Result<void> attach_corpus(const Corpus& corpus, std::vector<SequenceInfo>& infos);
/// Errors: invalid_capture where the row has no finite logit or its target token is masked.
[[nodiscard]] schema::Result<void> check_row(const Capture& capture, std::uint64_t row,
                                             const driftgate_row& result);
/// A table without rows: only identities, parameters and thresholds are filled in.
[[nodiscard]] MeasurementTable empty_table(const Capture& train, const Capture& inf,
                                           const MeasureOptions& options);

}  // namespace driftgate::gpu
