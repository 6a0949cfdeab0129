#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/tile_kernel.hpp"

/// The float32 code for rows that drift little: one exponential for each pair, and sums of e·d'^k from which
/// every divergence follows as a series. Where a series does not hold, the row takes the tile kernels.
namespace driftgate::gpu::cpu {

inline constexpr std::size_t kMomentForms = 3;
inline constexpr std::size_t kMostPowers = 12, kMostCross = 6;
/// Highest power k of Σe·d'^k, and of Σe·x·d'^k, of each form.
inline constexpr std::size_t kPowers[kMomentForms] = {5, 8, 12};
inline constexpr std::size_t kCross[kMomentForms] = {3, 4, 6};
inline constexpr std::size_t kNoColumn = ~std::size_t{0};

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

/// The largest logits of a tile, and of each part of it.
struct MomentScan {
  alignas(64) float max_z[kTileColumns / 4], max_y[kTileColumns / 4];
  float top_z, top_y;
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
  void (*scan)(const TileInput& input, MomentScan& out);
  /// First column with the tile's largest train logit.
  std::size_t (*first_top)(const TileInput& input, const MomentScan& scan);
  void (*offer)(const TileInput& input, const MomentScan& scan, TopList& top_train, TopList& top_inf);
  /// Range of z − y over a tile, up to rounding.
  void (*range)(const TileInput& input, float& low, float& high);
  /// Adds a tile to `sums`, without column `top`, and writes e and d' in whole vectors (0 where there is no
  /// column). Unless done, `sums` is as it was. `form`: index of kPowers. `exact`: with what z − y and
  /// `steps` round off. `masked`: -Inf in both is left out.
  MomentStatus (*sum)(const TileInput& input, const MomentFrame& frame, std::size_t form, bool exact,
                      bool core, bool masked, std::size_t top, float* e, float* d, MomentSums& sums);
  /// `sum` and `scan` in one reading of float32 logits, in whole vectors (`lanes`), none masked or left out.
  /// Stops early when a logit lies above the frame's top_z.
  MomentStatus (*sum_and_scan)(const TileInput& input, const MomentFrame& frame, std::size_t form, bool exact,
                               bool core, float* e, float* d, MomentSums& sums, MomentScan& scan);
  /// `columns` of scratch; a head set holds what has e > least; |d' + offset| ≤ size.
  void (*distances)(const float* e, const float* d, std::size_t columns, float offset, float size,
                    const float (&least)[kHeads], MomentDistances& out);
};

}  // namespace driftgate::gpu::cpu
