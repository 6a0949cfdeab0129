#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "gpu/backend/backend_input.hpp"

/// The vector code of the CPU engine: what is done with one tile of at most 2,048 columns. One
/// translation unit for each instruction set compiles gpu/cpu/tile_kernel.inl and offers this table.
namespace driftgate::gpu::cpu {

inline constexpr std::size_t kTileColumns = 2'048;
inline constexpr std::size_t kLanes = 8;
using gpu::kMaxTopK;

/// kSentinelBound at a temperature.
[[gnu::always_inline]] inline double sentinel_bound(double temperature) {
  return temperature < 1 ? kSentinelBound / temperature : kSentinelBound;
}

/// One of a row's largest logits, before the temperature.
struct TopEntry {
  double value;
  std::uint32_t id;
};

/// The k largest logits of a row: value descending, then id ascending. Columns arrive by ascending id.
struct TopList {
  TopEntry* entries;  ///< room for `capacity`
  std::uint32_t capacity;
  std::uint32_t size;
};

/// Pass 1 over some columns (docs/design/measurement.md, "Pass 1: sums about a pivot"), mergeable. With pivot
/// c and d' = (z − y) − c: sums over e^{z−m_p} and e^{y−m_q}. `m_q` is a reference within e^1 of the true
/// maximum, not always it.
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

/// Pass 2: additive sums of non-negative terms, and the head sets, whose `least_p` the caller chose.
struct Pass2 {
  double kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2;
  HeadSums heads[kHeads];
  double balance;  ///< Σ(q − p): 0, but for what the offset is off by, to first order
  bool coarse;     ///< some tile was summed coarsely
};

struct TileInput {
  const unsigned char* train;  ///< first element of the tile
  const unsigned char* inf;
  std::uint32_t train_dtype, inf_dtype;
  std::uint32_t columns;
  std::uint32_t first_id;
  double temperature;
  /// What will be read a few tiles later, to be fetched meanwhile; null when that is not known.
  const unsigned char* train_ahead = nullptr;
  const unsigned char* inf_ahead = nullptr;
};

/// Row scratch of one tile: `count` columns that are not masked, padded to whole vectors. The float32
/// kernels fill the narrow members instead of the first three, unless the tile needs float64.
struct Tile {
  double* z;      ///< logits of K_train over the temperature
  double* drift;  ///< z − y
  double* e;      ///< e^{z − m_p of the tile}
  std::size_t count;
  double m_p;
  double min_drift, max_drift;
  float* narrow_e = nullptr;      ///< e^{z − m_p}; null: this row is measured in float64
  float* narrow_drift = nullptr;  ///< (z − y) − pivot
  bool narrow = false;            ///< the narrow members hold the tile
  double pivot = 0;
  float top_inf = 0;    ///< the largest y, before the temperature
  bool coarse = false;  ///< pass 2 may sum to 1e-7 of the whole mass instead of each figure
  TileInput input{};    ///< to read the tile again in float64
};

struct MomentKernel;

struct TileKernel {
  const char* name;
  /// Fills `tile` and `out`, updates the top lists and returns the number of nonfinite logits. With any,
  /// or with tile.count == 0 (all masked), `out` is not written.
  std::uint64_t (*pass1)(const TileInput& input, Tile& tile, TopList& top_train, TopList& top_inf,
                         Pass1& out);
  /// Pass 1 of a tile whose count, z and drift (finite, over the temperature) the caller has written, with
  /// room for whole vectors: logits that were never stored. The top lists get z and z − drift; `ids` are the
  /// ids of the columns, ascending.
  void (*pass1_drift)(Tile& tile, const std::uint32_t* ids, TopList& top_train, TopList& top_inf, Pass1& out);
  /// Adds the tile to `out`. d = (drift − c) + offset; lse = log Σ e^z of the row.
  void (*pass2)(const Tile& tile, double c, double offset, double lse, Pass2& out);
  /// Logits of 16 bits in float32. Null: the kernel reads pairs of any two types as they are.
  void (*widen)(const unsigned char* logits, std::uint32_t dtype, std::size_t columns, float* out) = nullptr;
  const MomentKernel* moments = nullptr;  ///< tried first for each row, where there is one
};

extern const TileKernel kPortableKernel;
#ifdef DRIFTGATE_X86
extern const TileKernel kAvx2Kernel;
extern const TileKernel kAvx512Kernel;
extern const TileKernel kAvx2NarrowKernel;  ///< float32 where that is accurate enough
extern const TileKernel kAvx512NarrowKernel;
extern const TileKernel kAvx2MomentKernel;  ///< and one exponential for each pair of rows that drift little
extern const TileKernel kAvx512MomentKernel;
#endif

/// The fastest kernel that this processor runs.
[[nodiscard]] const TileKernel& best_kernel();

}  // namespace driftgate::gpu::cpu
