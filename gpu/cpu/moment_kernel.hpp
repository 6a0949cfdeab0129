#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/tile_kernel.hpp"

/// The float32 code for rows that drift little: one exponential for each pair, and sums of e·d'^k from which
/// every divergence follows as a series. Where a series does not hold, the row takes the tile kernels. See
/// gpu/cpu/README.md, "Moments".
namespace driftgate::gpu::cpu {

inline constexpr std::size_t kMomentForms = 3;
inline constexpr std::size_t kMostPowers = 12, kMostCross = 6;
/// Highest power k of Σe·d'^k, and of Σe·x·d'^k, of each form.
inline constexpr std::size_t kPowers[kMomentForms] = {5, 8, 12};
inline constexpr std::size_t kCross[kMomentForms] = {3, 4, 6};
inline constexpr std::size_t kNoColumn = ~std::size_t{0};
inline constexpr std::size_t kMostLanes = 16;
inline constexpr std::size_t kMomentBlock = 512;  ///< columns that one float32 sum runs over

/// In which units a tile is summed: e = 2^(x·log2 e)·2^−reference, x = z/temperature, d' = (z −
/// y)/temperature − c.
struct MomentFrame {
  float inverse_temperature;
  float pivot, pivot_low;  ///< c is their sum; the second only counts in the exact form
  float floor;             ///< logits below it count as it
  float steps, steps_low;  ///< steps of the exponent for each unit of a logit, their sum to the last places
  float magic;             ///< 1.5·2^23 − reference in steps
  float top;               ///< x at the logit of the column that stands alone
  float top_z;             ///< a train logit above it ends a reading
};

/// Sums over the columns of a row but for one that stands alone. A column that most of the mass is in must be
/// that: the rest beside it keeps its places.
struct MomentSums {
  double m[kMostPowers + 1];  ///< Σe·d'^k
  double x[kMostCross + 1];   ///< Σe·(x − top)·d'^k
  double d1, d2;              ///< Σd', Σd'², of all columns
  double n;                   ///< columns that are not masked
  double low, high;           ///< range of d'
  float top_e;                ///< e of the column that was left out
};

/// The largest train logits of each block of a tile: one for each lane.
struct MomentMaxima {
  alignas(64) float lanes[kTileColumns / kMomentBlock * kMostLanes];
};

/// What is kept of a tile beside its e and d'.
struct MomentTileFrame {
  double pivot = 0, reference = 0;
  bool blank = true;  ///< every column masked, before the row's first logit: in no units at all
  MomentMaxima maxima;
};

/// What a tile is summed by. `form`: index of kPowers. `exact`: with what z − y and `steps` round off; needed
/// for a temperature other than 1.
struct MomentPlan {
  std::size_t form = 0;
  bool exact = false, core = false;
};

/// Where a tile's e and d' are written, in whole vectors (0 where there is no column).
struct MomentTileScratch {
  float *e, *d;
};

/// Least and greatest z − y of columns, up to rounding.
struct DriftRange {
  float low, high;
};

/// What is known of a row's most likely tokens before they are looked for.
struct TopBounds {
  float train;       ///< the list's last train logit lies above it
  DriftRange drift;  ///< of z − y of all columns
};

/// What the second reading finds, in the units of the tile's e.
struct MomentDistances {
  double tv;                        ///< Σe·|expm1(−d)|
  double tail_p[kHeads];            ///< Σe outside each head set
  double tail_gap[kHeads];          ///< Σe·(1 − e^{−d}) outside it: p less q
  float low[kHeads], high[kHeads];  ///< range of d' over each
};

/// higher: a train logit above the frame's top_z.
enum class MomentStatus { done, nonfinite, far, higher };

struct MomentKernel {
  std::uint32_t steps;  ///< of the exponent for each power of two
  std::uint32_t lanes;  ///< columns of a vector
  /// The tile's largest train logit, and those of its blocks.
  float (*scan)(const TileInput& input, MomentMaxima& out);
  /// First column with the train logit `top_z`, which is the tile's largest.
  std::size_t (*first_top)(const TileInput& input, const MomentMaxima& maxima, float top_z);
  /// A value below the `count` largest train logits, by the maxima of `tiles` whole tiles.
  float (*surely_below)(const MomentTileFrame* frames, std::size_t tiles, std::uint32_t count);
  void (*offer)(const TileInput& input, const MomentMaxima& maxima, const TopBounds& bounds,
                TopList& top_train, TopList& top_inf);
  DriftRange (*range)(const TileInput& input);
  /// Adds a tile to `sums`, without column `top`. Unless done, `sums` is as it was. `masked`: -Inf in both is
  /// left out.
  MomentStatus (*sum)(const TileInput& input, const MomentFrame& frame, MomentPlan plan, bool masked,
                      std::size_t top, MomentTileScratch scratch, MomentSums& sums);
  /// `sum` and `scan` in one reading, from column `begin` on, a multiple of kMomentBlock, of a tile of whole
  /// vectors (`lanes`) with nothing masked. `top` may be in the first block. At a block with a logit above
  /// the frame's top_z: higher, with the blocks before it in `sums` and its first column in `begin`.
  MomentStatus (*sum_and_scan)(const TileInput& input, const MomentFrame& frame, MomentPlan plan,
                               std::size_t& begin, std::size_t top, MomentTileScratch scratch,
                               MomentSums& sums, MomentMaxima& maxima);
  /// `columns` of scratch; a head set holds what has e > least; |d' + offset| ≤ size.
  void (*distances)(const float* e, const float* d, std::size_t columns, float offset, float size,
                    const float (&least)[kHeads], MomentDistances& out);
};

}  // namespace driftgate::gpu::cpu
