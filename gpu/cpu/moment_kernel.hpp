#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/tile_kernel.hpp"

/// The float32 vector code for rows with small drifts: one exponential for each pair of logits, and sums of
/// e·d'^k ("moments") from which every divergence but tv follows as a series. Rows for which a series is not
/// accurate enough are measured by the tile kernels. See gpu/cpu/README.md, "Moments", for formulas and error
/// bounds.
namespace driftgate::gpu::cpu {

inline constexpr std::size_t kMomentForms = 3;
inline constexpr std::size_t kMostPowers = 12, kMostCross = 6;
/// The highest power k in Σe·d'^k, and in Σe·x·d'^k, of each form.
inline constexpr std::size_t kPowers[kMomentForms] = {5, 8, 12};
inline constexpr std::size_t kCross[kMomentForms] = {3, 4, 6};
inline constexpr std::size_t kNoColumn = ~std::size_t{0};
inline constexpr std::size_t kMostLanes = 16;
inline constexpr std::size_t kMomentBlock = 512;  ///< columns that one float32 sum runs over

/// The units in which a tile is summed: e = 2^(x·log2 e)·2^−reference, x = z/temperature, d' = (z −
/// y)/temperature − c.
struct MomentFrame {
  float inverse_temperature;
  float pivot, pivot_low;  ///< c is their sum; pivot_low is used only in the exact form
  float floor;             ///< lower logits are raised to it
  float steps, steps_low;  ///< steps of the exponent for each unit of a logit: high and low part
  float magic;             ///< 1.5·2^23 − reference in steps
  float top;               ///< x of the column that is kept apart
  float top_z;             ///< a K_train logit above it ends the reading
};

/// Sums over all columns of a row but one, which is kept apart: a column that has most of the mass, if there
/// is one, so that the sums over the others keep their accuracy.
struct MomentSums {
  double m[kMostPowers + 1];  ///< Σe·d'^k
  double x[kMostCross + 1];   ///< Σe·(x − top)·d'^k
  double d1, d2;              ///< Σd', Σd'², of all columns
  double n;                   ///< columns that are not masked
  double low, high;           ///< range of d'
  float top_e;                ///< e of the column that is kept apart
};

/// The largest K_train logits of each block of a tile, one for each lane.
struct MomentMaxima {
  alignas(64) float lanes[kTileColumns / kMomentBlock * kMostLanes];
};

/// What is kept of a tile besides its e and d'.
struct MomentTileFrame {
  double pivot = 0, reference = 0;
  bool blank = true;  ///< every column is masked, and no logit has set the units yet
  MomentMaxima maxima;
};

/// How a tile is summed. `form`: an index into kPowers. `exact`: include the rounding errors of z − y and of
/// `steps`, which temperatures other than 1 require. `core`: only the sums that core metrics need.
struct MomentPlan {
  std::size_t form = 0;
  bool exact = false, core = false;
};

/// Buffers for the e and d' of a tile, in whole vectors (0 where there is no column).
struct MomentTileScratch {
  float *e, *d;
};

/// The least and the greatest z − y of some columns, up to rounding.
struct DriftRange {
  float low, high;
};

/// Bounds that are known before the most likely tokens of a row are searched.
struct TopBounds {
  float train;       ///< the last K_train logit of the list is above it
  DriftRange drift;  ///< of z − y of all columns
};

/// Results of the second reading, in the units of the e of the tile.
struct MomentDistances {
  double tv;                        ///< Σe·|expm1(−d)|
  double tail_p[kHeads];            ///< Σe outside each head set
  double tail_gap[kHeads];          ///< Σe·(1 − e^{−d}) outside it: mass of p minus mass of q
  float low[kHeads], high[kHeads];  ///< range of d' over each head set
};

/// How the summing of a tile ended. far: a drift is too large for any series. higher: a K_train logit is
/// above top_z of the frame.
enum class MomentStatus { done, nonfinite, far, higher };

struct MomentKernel {
  std::uint32_t steps;  ///< of the exponent for each power of two
  std::uint32_t lanes;  ///< columns of a vector
  /// Returns the largest K_train logit of the tile and writes those of its blocks.
  float (*scan)(const TileInput& input, MomentMaxima& out);
  /// The first column with the K_train logit `top_z`, which is the largest of the tile.
  std::size_t (*first_top)(const TileInput& input, const MomentMaxima& maxima, float top_z);
  /// A value below the `count` largest K_train logits, from the maxima of `tiles` whole tiles.
  float (*surely_below)(const MomentTileFrame* frames, std::size_t tiles, std::uint32_t count);
  void (*offer)(const TileInput& input, const MomentMaxima& maxima, const TopBounds& bounds,
                TopList& top_train, TopList& top_inf);
  DriftRange (*range)(const TileInput& input);
  /// Adds a tile to `sums`, except column `top`. Unless it returns done, `sums` is unchanged. `masked`:
  /// columns that are −∞ in both kernels are left out.
  MomentStatus (*sum)(const TileInput& input, const MomentFrame& frame, MomentPlan plan, bool masked,
                      std::size_t top, MomentTileScratch scratch, MomentSums& sums);
  /// `sum` and `scan` in one reading of a tile of whole vectors (`lanes`) without masked columns, from column
  /// `begin` on, a multiple of kMomentBlock. `top` may be in the first block. Where a block has a logit above
  /// top_z of the frame, returns higher, with the earlier blocks added to `sums` and the first column of that
  /// block in `begin`.
  MomentStatus (*sum_and_scan)(const TileInput& input, const MomentFrame& frame, MomentPlan plan,
                               std::size_t& begin, std::size_t top, MomentTileScratch scratch,
                               MomentSums& sums, MomentMaxima& maxima);
  /// The second reading over `columns` columns of scratch. A head set holds the columns with e > least; |d' +
  /// offset| ≤ size.
  void (*distances)(const float* e, const float* d, std::size_t columns, float offset, float size,
                    const float (&least)[kHeads], MomentDistances& out);
};

}  // namespace driftgate::gpu::cpu
