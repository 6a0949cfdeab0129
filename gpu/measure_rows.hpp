#pragma once

#include <cstdint>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/error.hpp"

/// What measuring has in common whether one engine holds whole rows or several hold parts of them.
namespace driftgate::gpu {

/// Walks the segments of one capture in row order.
class LogitsCursor {
 public:
  explicit LogitsCursor(const Capture& capture) : capture_(capture) {}
  /// Rows from `row` on that lie in one piece.
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

/// Rows of one batch of whole rows.
[[nodiscard]] std::uint64_t batch_rows(const Capture& train);
/// Gives the sequences what the corpus says of them; not_comparable when it does not know one.
[[nodiscard]] schema::Result<void> attach_corpus(const Corpus& corpus, std::vector<SequenceInfo>& infos);
/// The invalid_capture error of a row without a distribution or of a masked token.
[[nodiscard]] schema::Result<void> check_row(const Capture& capture, std::uint64_t row,
                                             const driftgate_row& result);
/// A table without rows: identities, parameters and thresholds.
[[nodiscard]] MeasurementTable empty_table(const Capture& train, const Capture& inf,
                                           const MeasureOptions& options);

}  // namespace driftgate::gpu
