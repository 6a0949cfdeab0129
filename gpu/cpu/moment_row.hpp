#pragma once

#include <cstdint>
#include <vector>

#include "gpu/backend.h"
#include "gpu/cpu/moment_kernel.hpp"
#include "gpu/cpu/moment_sums.hpp"

namespace driftgate::gpu::cpu {

/// Measures the rows whose drift is small enough for sums of powers (moment_kernel.hpp) and leaves the
/// others.
class MomentRow {
 public:
  /// `scratch`: 2·kTileColumns floats for each tile.
  MomentRow(const MomentKernel& kernel, std::uint32_t vocabulary, std::uint32_t top_k, bool core,
            std::vector<float>& scratch);
  /// False when the row needs the tile kernels; then only the lists are touched. `out` is cleared.
  bool measure(const driftgate_batch& batch, std::uint64_t index, TopList& top_train, TopList& top_inf,
               driftgate_row& out);

 private:
  enum class Outcome { done, refused, raise, exact };
  /// What pass 2 needs of a tile.
  struct TileFrame {
    double pivot = 0, reference = 0;
    bool blank = true;  ///< every column masked, before the row's first logit: in no units at all
  };
  /// The row so far.
  struct State {
    MomentSums sums{};
    MomentFrame frame{};
    double pivot = 0, top = 0, reference = 0, reference_top = 0;
    double top_drift = 0;  ///< (z − y)/temperature of the top column
    double bulk = 0;       ///< the largest Σ of terms of Σe·d'² that a move of the pivot met
    float top_z = 0;
    std::size_t form = 0;
    bool any = false, exact = false;
  };
  /// How the row is summed.
  struct Way {
    std::size_t form = 0;
    bool exact = false, chosen = false;
  };
  Outcome attempt(const driftgate_batch& batch, std::uint64_t index, TopList& top_train, TopList& top_inf,
                  Way& way, driftgate_row& out);
  [[nodiscard]] TileInput input_of(const driftgate_batch& batch, std::uint64_t index, std::size_t tile) const;
  bool sum_tile(const TileInput& input, std::size_t tile, TopList& top_train, TopList& top_inf, State& state,
                Way& way);
  /// Sums the tile in one reading, if nothing in it asks for another frame.
  bool sum_at_once(const TileInput& input, std::size_t tile, TopList& top_train, TopList& top_inf,
                   State& state, const Way& way);
  bool choose(const TileInput& input, State& state, Way& way) const;
  [[nodiscard]] bool raise_top(const TileInput& input, float top_z, std::size_t column, State& state) const;
  static void set_pivot(State& state, double pivot);
  [[nodiscard]] bool repivot(State& state, double pivot, double rise) const;
  bool sum_columns(const TileInput& input, std::size_t tile, std::size_t column, bool first, State& state,
                   const Way& way);
  bool settle(std::size_t tile, double off, State& state);
  [[nodiscard]] static double off_centre(const State& state, double lenience);
  Pass2 distances(const State& state, const MomentFigures& figures, double stretch) const;
  Outcome finish(const driftgate_batch& batch, std::uint64_t index, const TopList& top_train,
                 const TopList& top_inf, const State& state, const Way& way, driftgate_row& out) const;

  const MomentKernel& kernel_;
  std::uint32_t vocabulary_, top_k_;
  bool core_;
  std::vector<float>& scratch_;
  std::vector<TileFrame> frames_;
};

}  // namespace driftgate::gpu::cpu
