#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/cpu/moment_kernel.hpp"
#include "gpu/cpu/moment_sums.hpp"
#include "gpu/cpu/row_columns.hpp"

namespace driftgate::gpu::cpu {

/// Buffers that keep the float32 exponentials and drifts of the tiles of a row until the second reading.
struct MomentScratch {
  std::span<float> values;  ///< 2·kTileColumns for each tile
  std::span<MomentTileFrame> frames;
};

/// The sums over the columns of a row, or of a part of one, that were read so far.
struct MomentState {
  MomentSums sums{};
  MomentFrame frame{};
  double pivot = 0, top = 0, reference = 0, reference_top = 0;
  double top_drift = 0;  ///< (z − y)/temperature of the column that is kept apart
  double bulk = 0;       ///< the largest sum of |terms| of Σe·d'² that cancelled when the pivot was moved
  float top_z = 0;       ///< logit of the column kept apart; need not be the largest
  std::size_t form = 0;
  bool any = false, exact = false;
  double lse = 0;  ///< of a part: log Σ e^z
};

/// Measures rows, or parts of rows, whose drift is small enough for sums of powers (moment_kernel.hpp) and
/// rejects the others. See gpu/cpu/README.md, "Moments".
class MomentRow {
 public:
  MomentRow(const MomentKernel& kernel, std::uint32_t top_k, bool core)
      : kernel_(kernel), top_k_(top_k), core_(core) {}
  /// Returns false when the row must be measured by the tile kernels; then only the lists are modified. `out`
  /// must be cleared; `token` is the column of the target token or null.
  bool measure(const RowColumns& columns, const std::int64_t* token, MomentScratch scratch,
               TopList& top_train, TopList& top_inf, driftgate_row& out) const;

  /// Pass 1 over a part of a row. Returns false as `measure` does; else writes sums and moments of `out`.
  bool sum_part(const RowColumns& columns, MomentScratch scratch, TopList& top_train, TopList& top_inf,
                MomentState& state, driftgate_shard_partial& out) const;
  /// Pass 2 over the part, from `scratch` and `state` as pass 1 left them: writes tv and heads of `out`. Not
  /// for core metrics.
  void part_terms(const RowColumns& columns, MomentScratch scratch, const MomentState& state,
                  const driftgate_shard_row& merged, driftgate_shard_terms& out) const;

 private:
  enum class Outcome { done, refused, more_powers, exact };
  /// How the row is summed.
  struct Variant {
    std::size_t form = 0;
    bool exact = false, chosen = false;
  };
  /// The input, the buffers and the results of one attempt.
  struct Run {
    const RowColumns& columns;
    const MomentScratch& scratch;
    TopList &top_train, &top_inf;
    MomentState& state;
    Variant variant{};
  };
  /// Pivot and units of the second reading.
  struct Centre {
    double pivot, offset;  ///< d = (d' + its tile's pivot − pivot) + offset, in units of d'
    double share;          ///< p where e = 1, at the final reference of the row
    double size;           ///< upper bound of |d|
    double stretch;
  };
  [[nodiscard]] static MomentTileScratch scratch_of(const Run& run, std::size_t tile);
  [[nodiscard]] MomentPlan plan_of(const Run& run) const {
    return {run.variant.form, run.variant.exact, core_};
  }
  /// Sums the columns, repeatedly in other forms, until `judge(run)` accepts the result.
  template <typename Judge>
  bool attempt_all(Run& run, Judge judge) const;
  [[nodiscard]] bool sum_all(Run& run) const;
  bool sum_tile(Run& run, std::size_t tile) const;
  void probe(Run& run, const TileInput& input) const;
  /// Sums the tile in one reading, unless it requires another pivot or other units.
  bool sum_at_once(Run& run, const TileInput& input, std::size_t tile) const;
  bool choose(const TileInput& input, Run& run) const;
  [[nodiscard]] bool raise_top(const TileInput& input, float top_z, std::size_t column,
                               MomentState& state) const;
  [[nodiscard]] float bearable_top(const MomentState& state, double temperature) const;
  bool exchange_top(const TileInput& input, std::size_t begin, MomentState& state, std::size_t& column) const;
  static void set_pivot(MomentState& state, double pivot);
  [[nodiscard]] bool repivot(MomentState& state, double pivot, double rise) const;
  bool sum_columns(Run& run, const TileInput& input, std::size_t tile, std::size_t column, bool first) const;
  bool settle(Run& run, std::size_t tile, double off) const;
  [[nodiscard]] static double off_centre(const MomentState& state, double lenience);
  /// The sums relative to the actual largest logit of the row.
  [[nodiscard]] static MomentSums about_top(const Run& run);
  [[nodiscard]] static MomentColumn alone_of(const Run& run);
  [[nodiscard]] MomentFigures figures(const Run& run, const MomentSums& sums) const;
  [[nodiscard]] double weight_error(const MomentState& state, double temperature) const;
  void offer(Run& run) const;
  void distances(const Run& run, const Centre& centre, Pass2& out) const;
  Outcome finish(Run& run, const std::int64_t* token, driftgate_row& out) const;
  Outcome finish_part(Run& run, driftgate_shard_partial& out) const;

  const MomentKernel& kernel_;
  std::uint32_t top_k_;
  bool core_;
};

}  // namespace driftgate::gpu::cpu
