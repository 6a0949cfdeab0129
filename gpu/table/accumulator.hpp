#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/drift.hpp"
#include "gpu/partial/partial_row.hpp"
#include "gpu/table/histogram_bins.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

/// The figures of a row that the drift profile uses.
[[nodiscard]] ProfileRow profile_row(std::int64_t position, const driftgate_row& row);

/// Adds rows to a measurement table. Rows are added in row order by one thread, so that the table does not
/// depend on how many threads evaluated them.
class Accumulator {
 public:
  /// `table` has identities, parameters and thresholds filled in. `sequence_ids` has one element for each row
  /// that will be added.
  Accumulator(MeasurementTable table, std::span<const std::int64_t> sequence_ids);

  /// The sequences in order of first appearance. Fill in their attributes before `set_slices`.
  [[nodiscard]] std::vector<SequenceInfo>& infos() { return table_.infos; }
  void set_slices(const std::vector<SliceAttributes>& slices);
  void set_top_rows(std::size_t count) { top_rows_ = count; }
  /// The rows follow others: the sums of the profile go on from theirs.
  void continue_profile(const DriftProfile& before) { table_.profile = before; }

  /// Adds the next row. Figures that are NaN are left out.
  void add(std::int64_t position, std::int64_t token, const driftgate_row& row);
  /// Adds the next row of a table whose PartialInfo is filled in. With `nonfinite` > 0 the row has no other
  /// figure.
  void add_partial(std::int64_t position, std::int64_t token, const PartialRow& row, std::uint64_t nonfinite);
  [[nodiscard]] MeasurementTable finish();

 private:
  void add_exact(std::int64_t position, const driftgate_row& row);
  void add_bounds(SequenceRow& sequence, const PartialRow& row) const;
  void add_target_token(TargetTokenSums& sums, double log_p, double log_q, double log_w) const;
  void offer_worst(WorstRow row);
  void add_profile(std::uint32_t sequence, const ProfileRow& figures, WorstRow row);
  void flush_pending();

  MeasurementTable table_;
  std::vector<std::uint32_t> sequence_of_row_;
  std::vector<std::int64_t> last_position_;  ///< of each sequence so far
  std::vector<std::vector<std::uint32_t>> slices_of_sequence_;
  std::vector<std::array<HistogramBuilder, kRowMetricCount>> builders_;
  std::size_t top_rows_ = 0;
  std::uint64_t next_row_ = 0;
  /// The newest row, kept until the figures of its successor are known.
  struct Pending {
    std::uint32_t sequence = 0;
    ProfileRow figures;
    WorstRow worst;
  };
  std::optional<Pending> pending_;
};

}  // namespace driftgate::gpu
