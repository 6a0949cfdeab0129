#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/capture/corpus.hpp"
#include "gpu/drift.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

/// The table of a measurement, chunk by chunk in row order. Each chunk continues the sums over all rows (the
/// profile) where the one before it ended, and everything else is per sequence or counts; so the table has
/// the same bits as one that was accumulated in one go.
class ChunkedTable {
 public:
  /// What it refers to must outlive it. `engine` describes what computes the rows: chunks of other engines,
  /// options or captures are not taken. Errors: those of attach_corpus.
  [[nodiscard]] static schema::Result<ChunkedTable> open(const Capture& train, const Capture& inf,
                                                         const Corpus* corpus, const MeasureOptions& options,
                                                         const std::string& engine);

  /// The rows of each chunk. Without a store there is one.
  [[nodiscard]] const std::vector<Range>& chunks() const { return chunks_; }
  /// The number of the next chunk; chunks().size() when all are in the table.
  [[nodiscard]] std::size_t next() const { return next_; }
  /// Adds the next chunk as it was kept; false when it must be measured: nothing was kept, or something else.
  [[nodiscard]] bool take();
  /// An accumulator for the rows of the next chunk.
  [[nodiscard]] Accumulator start() const;
  /// Adds the next chunk, measured, and keeps it.
  [[nodiscard]] schema::Result<void> add(MeasurementTable table);
  /// The table of all chunks; the last call.
  [[nodiscard]] MeasurementTable finish();

 private:
  ChunkedTable(const Capture& train, const Capture& inf, const MeasureOptions& options)
      : train_(train), inf_(inf), options_(options) {}
  [[nodiscard]] bool keeps() const { return options_.chunking.store != nullptr && chunks_.size() > 1; }
  [[nodiscard]] const DriftProfile* profile() const { return table_ ? &table_->profile : nullptr; }
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string key() const;
  [[nodiscard]] bool fits(const MeasurementTable& table) const;
  void append(MeasurementTable table);

  const Capture& train_;
  const Capture& inf_;
  const MeasureOptions& options_;
  std::vector<SliceAttributes> slices_;
  std::vector<SequenceInfo> infos_;  ///< of all sequences, in order of first appearance
  std::vector<Range> chunks_;
  std::string what_;  ///< everything but the chunk that decides the bits
  std::size_t next_ = 0;
  std::optional<MeasurementTable> table_;
};

}  // namespace driftgate::gpu
