#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/backend/backend.h"
#include "gpu/cpu/moment_kernel.hpp"
#include "gpu/cpu/moment_sums.hpp"
#include "gpu/cpu/row_columns.hpp"

namespace driftgate::gpu::cpu {

/// Where the float32 exponentials and drifts of a row's tiles stay until the second reading.
struct MomentScratch {
  std::span<float> values;  ///< 2·kTileColumns for each tile
  std::span<MomentTileFrame> frames;
};

/// A row, or the part of one, so far.
struct MomentState {
  MomentSums sums{};
  MomentFrame frame{};
  double pivot = 0, top = 0, reference = 0, reference_top = 0;
  double top_drift = 0;  ///< (z − y)/temperature of the column that stands alone
  double bulk = 0;       ///< the largest Σ of terms of Σe·d'² that a move of the pivot met
  float top_z = 0;       ///< its logit, which may be less than the largest
  std::size_t form = 0;
  bool any = false, exact = false;
  double lse = 0;  ///< of a part: log Σ e^z
};

/// Measures the rows whose drift is small enough for sums of powers (moment_kernel.hpp), or parts of them,
/// and leaves the others. See gpu/cpu/README.md, "Moments".
class MomentRow {
 public:
  MomentRow(const MomentKernel& kernel, std::uint32_t top_k, bool core)
      : kernel_(kernel), top_k_(top_k), core_(core) {}
  /// False when the row needs the tile kernels; then only the lists are touched. `out` is cleared, `token` a
  /// column or null.
  bool measure(const RowColumns& columns, const std::int64_t* token, MomentScratch scratch,
               TopList& top_train, TopList& top_inf, driftgate_row& out) const;

  /// The first pass over a part of a row. False as above, else sums and moments of `out` are written.
  bool sum_part(const RowColumns& columns, MomentScratch scratch, TopList& top_train, TopList& top_inf,
                MomentState& state, driftgate_shard_partial& out) const;
  /// The second, from what the first left in `scratch` and `state`: tv and heads of `out`. Not with core
  /// metrics.
  void part_terms(const RowColumns& columns, MomentScratch scratch, const MomentState& state,
                  const driftgate_shard_row& merged, driftgate_shard_terms& out) const;

 private:
  enum class Outcome { done, refused, raise, exact };
  /// How the row is summed.
  struct Way {
    std::size_t form = 0;
    bool exact = false, chosen = false;
  };
  /// What is read, where it is kept, and what it adds up to.
  struct Run {
    const RowColumns& columns;
    const MomentScratch& scratch;
    TopList &top_train, &top_inf;
    MomentState& state;
    Way way{};
  };
  /// About what the second reading looks at the columns.
  struct Centre {
    double pivot, offset;  ///< d = (d' + its tile's pivot − pivot) + offset, in units of d'
    double share;          ///< p of e = 1, at the row's last reference
    double size;           ///< at least |d|
    double stretch;
  };
  [[nodiscard]] static MomentTileScratch scratch_of(const Run& run, std::size_t tile);
  [[nodiscard]] MomentPlan plan_of(const Run& run) const { return {run.way.form, run.way.exact, core_}; }
  /// Sums the columns until `judge(run)` is content.
  template <typename Judge>
  bool attempt_all(Run& run, Judge judge) const;
  [[nodiscard]] bool sum_all(Run& run) const;
  bool sum_tile(Run& run, std::size_t tile) const;
  void probe(Run& run, const TileInput& input) const;
  /// Sums the tile in one reading, if nothing in it asks for another pivot or other units.
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
  /// The sums about the row's largest logit as it is.
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
