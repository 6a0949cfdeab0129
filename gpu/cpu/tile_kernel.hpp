#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "gpu/backend/backend_input.hpp"

/// The vector code of the CPU engine for one tile of at most 2,048 columns. Each instruction set has a
/// translation unit that compiles gpu/cpu/tile_kernel.inl into such a table of functions.
namespace driftgate::gpu::cpu {

inline constexpr std::size_t kTileColumns = 2'048;
inline constexpr std::size_t kLanes = 8;
using gpu::kMaxTopK;

/// kSentinelBound for logits divided by this temperature.
[[gnu::always_inline]] inline double sentinel_bound(double temperature) {
  return temperature < 1 ? kSentinelBound / temperature : kSentinelBound;
}

/// One of the largest logits of a row, before division by the temperature.
struct TopEntry {
  double value;
  std::uint32_t id;
};

/// The k largest logits of a row, by descending value, then ascending id. Columns are offered by ascending
/// id.
struct TopList {
  TopEntry* entries;  ///< room for `capacity`
  std::uint32_t capacity;
  std::uint32_t size;
};

/// Mergeable sums of pass 1 over some columns (docs/design/measurement.md, "Pass 1: sums about a pivot"),
/// over e^{z−m_p} and e^{y−m_q}, with pivot c and d' = (z − y) − c. `m_q` is a reference within 1 of the true
/// maximum of y, and need not be that maximum.
struct Pass1 {
  double m_p, l_p, s, g, a_p;  ///< Σe, Σe·d', Σe·φ(−d'), Σe·(z − m_p)
  double m_q, l_q, t, h, a_q;  ///< Σe, Σe·d', Σe·φ(d'),  Σe·(y − m_q)
  double c;
  double min_drift, max_drift;  ///< of z − y
  double n, mean_drift, m2;     ///< of z − y: count, mean, centred sum of squares
};

/// Span and tail of the head set {v: p_v > least_p} (docs/design/measurement.md, "Link 2: head and tail").
struct HeadSums {
  double least_p;
  double min_d, max_d;    ///< over the head
  double tail_p, tail_q;  ///< masses outside it
};
inline constexpr std::size_t kHeads = 2;

/// Sums of pass 2, of non-negative terms (docs/design/measurement.md, "Pass 2: sums of non-negative terms"),
/// and the head sets, whose `least_p` the caller has chosen.
struct Pass2 {
  double kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2;
  HeadSums heads[kHeads];
  double balance;  ///< Σ(q − p): 0 up to the error of the offset, to first order
  bool coarse;     ///< whether a tile was summed in the coarse form
};

struct TileInput {
  const unsigned char* train;  ///< first element of the tile
  const unsigned char* inf;
  std::uint32_t train_dtype, inf_dtype;
  std::uint32_t columns;
  std::uint32_t first_id;
  double temperature;
  /// What will be read a few tiles later, to be prefetched; null when that is not known.
  const unsigned char* train_ahead = nullptr;
  const unsigned char* inf_ahead = nullptr;
};

/// Scratch of one tile: `count` columns that are not masked, padded to whole vectors. The float32 kernels
/// fill the narrow members instead of z, drift and e, unless the tile needs float64.
struct Tile {
  double* z;      ///< logits of K_train divided by the temperature
  double* drift;  ///< z − y
  double* e;      ///< e^{z − m_p of the tile}
  std::size_t count;
  double m_p;
  double min_drift, max_drift;
  float* narrow_e = nullptr;      ///< e^{z − m_p}; null: this row is measured in float64
  float* narrow_drift = nullptr;  ///< (z − y) − pivot
  bool narrow = false;            ///< whether the narrow members hold the tile
  double pivot = 0;
  float top_inf = 0;    ///< the largest y, before division by the temperature
  bool coarse = false;  ///< pass 2 may have errors of 1e-7 of the whole mass instead of each figure
  TileInput input{};    ///< to read the tile again in float64
};

struct MomentKernel;

struct TileKernel {
  const char* name;
  /// Fills `tile` and `out`, updates the top lists and returns the number of nonfinite logits. If there are
  /// any, or if all columns are masked (tile.count == 0), `out` is not written.
  std::uint64_t (*pass1)(const TileInput& input, Tile& tile, TopList& top_train, TopList& top_inf,
                         Pass1& out);
  /// Pass 1 of a tile of logits that were never stored: the caller has written count, z and drift (finite,
  /// divided by the temperature), with room for whole vectors. The top lists get z and z − drift; `ids` are
  /// the ascending ids of the columns.
  void (*pass1_drift)(Tile& tile, const std::uint32_t* ids, TopList& top_train, TopList& top_inf, Pass1& out);
  /// Adds the tile to `out`. d = (drift − c) + offset; lse = log Σ e^z of the row.
  void (*pass2)(const Tile& tile, double c, double offset, double lse, Pass2& out);
  /// Converts 16-bit logits to float32. Null: the kernel reads pairs of any two types directly.
  void (*widen)(const unsigned char* logits, std::uint32_t dtype, std::size_t columns, float* out) = nullptr;
  const MomentKernel* moments = nullptr;  ///< tried first for each row; may be null
};

extern const TileKernel kPortableKernel;
#ifdef DRIFTGATE_X86
extern const TileKernel kAvx2Kernel;
extern const TileKernel kAvx512Kernel;
extern const TileKernel kAvx2NarrowKernel;  ///< in float32 where that is accurate enough
extern const TileKernel kAvx512NarrowKernel;
extern const TileKernel kAvx2MomentKernel;  ///< and with moments where the drifts are small
extern const TileKernel kAvx512MomentKernel;
#endif

/// The fastest kernel that this processor runs.
[[nodiscard]] const TileKernel& best_kernel();

}  // namespace driftgate::gpu::cpu
