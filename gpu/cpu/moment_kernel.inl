// Sums of powers in float32 (moment_kernel.hpp), included after narrow_kernel.inl, whose functions it uses.
// See gpu/cpu/README.md, "Moments".

#include "gpu/cpu/moment_kernel.hpp"

namespace driftgate::gpu::cpu {

namespace {

constexpr double kFarDrift = 1.5;  // beyond it no series is of use

// The bits of 2^(j/32) minus j << 18, which the shifted exponent adds; every fourth entry is 2^(j/8) with j
// << 20.
alignas(64) constexpr std::uint32_t kPowersOf2[32] = {
    0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
    0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
    0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
    0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};

DRIFTGATE_INLINE Exponential make_exponential() {
  float table[kSteps];
  for (std::size_t j = 0; j < kSteps; ++j)
    std::memcpy(&table[j], &kPowersOf2[j * (32 / kSteps)], sizeof(float));
  return Exponential(table);
}

/// A frame in registers.
struct WideFrame {
  F inverse_temperature, pivot, pivot_low, floor, steps, steps_low, magic, top;
  DRIFTGATE_INLINE explicit WideFrame(const MomentFrame& from)
      : inverse_temperature(fill(from.inverse_temperature)),
        pivot(fill(from.pivot)),
        pivot_low(fill(from.pivot_low)),
        floor(fill(from.floor)),
        steps(fill(from.steps)),
        steps_low(fill(from.steps_low)),
        magic(fill(from.magic)),
        top(fill(from.top)) {}
};

/// Not initialised here: the compiler would do it in memory, which costs as much as a dozen vectors.
template <std::size_t Form, bool Core>
struct MomentVectors {
  F m[kPowers[Form] + 1], x[kCross[Form] + 1], d1, d2;
  DRIFTGATE_INLINE void clear() {
#pragma GCC unroll 16
    for (std::size_t k = 0; k <= kPowers[Form]; ++k) m[k] = F{};
#pragma GCC unroll 16
    for (std::size_t k = 0; k <= kCross[Form]; ++k) x[k] = F{};
    d1 = d2 = F{};
  }
};

/// d' of a vector of pairs. `Exact`: divided by the temperature, and with the rounding error of z − y added
/// (Knuth's two-sum).
template <bool Exact>
DRIFTGATE_INLINE F moment_drift(F z, F y, const WideFrame& frame) {
  const F s = z - y;
  if constexpr (!Exact) return s - frame.pivot;
  const F part = s - z;
  const F rest = (z - (s - part)) - (y + part);
  return fused_less(s, frame.inverse_temperature, frame.pivot) +
         fused_less(rest, frame.inverse_temperature, frame.pivot_low);
}

template <std::size_t Form, bool Core>
DRIFTGATE_INLINE void add_powers(F e, F d, F x, MomentVectors<Form, Core>& sums) {
  constexpr std::size_t kMost = kPowers[Form], kMostX = kCross[Form];
  const F d2 = d * d;
  F t[kMost + 1];
  t[0] = e;
  t[1] = e * d;
  sums.m[0] += e;
  sums.m[1] += t[1];
#pragma GCC unroll 16
  for (std::size_t k = 2; k + 2 <= kMost; ++k) {
    t[k] = k == 2 ? t[1] * d : t[k - 2] * d2;
    sums.m[k] += t[k];
  }
  sums.m[kMost - 1] = fused(t[kMost - 3], d2, sums.m[kMost - 1]);
  sums.m[kMost] = fused(t[kMost - 2], d2, sums.m[kMost]);
  if constexpr (!Core) {
    t[0] = e * x;
    sums.x[0] += t[0];
    t[1] = t[0] * d;
#pragma GCC unroll 16
    for (std::size_t k = 1; k + 2 <= kMostX; ++k) {
      if (k > 1) t[k] = t[k - 2] * d2;
      sums.x[k] += t[k];
    }
    sums.x[kMostX - 1] = fused(t[kMostX - 3], d2, sums.x[kMostX - 1]);
    sums.x[kMostX] = fused(t[kMostX - 2], d2, sums.x[kMostX]);
    sums.d1 += d;
    sums.d2 += d2;
  }
}

/// The range of d', which contains 0. The bits of positive floats have the order of integers, those of
/// negative floats the reverse order of unsigned integers. Integer comparisons leave the floating-point units
/// free for additions.
struct DriftBits {
  I low, high;
  DRIFTGATE_INLINE void clear() { low = high = I{}; }
  DRIFTGATE_INLINE void add(F d) {
    low = larger_unsigned(low, reinterpret_cast<I>(d));
    high = larger_signed(high, reinterpret_cast<I>(d));
  }
  [[nodiscard]] float least() const { return smallest(smaller(F{}, reinterpret_cast<F>(low))); }
  [[nodiscard]] float most() const { return largest(reinterpret_cast<F>(high)); }
};

/// The largest K_train logits of a block.
template <std::uint32_t Dtype>
void scan_block(const Columns& columns, std::size_t begin, std::size_t end, MomentMaxima& out) {
  F most = load_logits<Dtype>(columns.train, begin);
  for (std::size_t i = begin + kWidth; i < end; i += kWidth)
    most = larger(most, load_logits<Dtype>(columns.train, i));
  store(out.lanes + begin / kMomentBlock * kMostLanes, most);
}

/// Sums and maxima of one block.
template <std::size_t Form, bool Core>
struct MomentBlockSums {
  MomentVectors<Form, Core> sums;
  DriftBits drifts;
  F most;  ///< largest train logits, where the block was scanned
  DRIFTGATE_INLINE void clear() {
    sums.clear(), drifts.clear();
    most = fill(-__builtin_inff());
  }
};

/// The sums of a tile until it is known to be accepted: in float32, block by block.
template <std::size_t Form, bool Core>
struct MomentTotals {
  MomentVectors<Form, Core> all;
  DriftBits drifts;
  MomentTotals() { all.clear(), drifts.clear(); }
  void add(const MomentBlockSums<Form, Core>& block) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k <= kPowers[Form]; ++k) all.m[k] += block.sums.m[k];
    drifts.low = larger_unsigned(drifts.low, block.drifts.low);
    drifts.high = larger_signed(drifts.high, block.drifts.high);
    if constexpr (!Core) {
#pragma GCC unroll 16
      for (std::size_t k = 0; k <= kCross[Form]; ++k) all.x[k] += block.sums.x[k];
      all.d1 += block.sums.d1, all.d2 += block.sums.d2;
    }
  }
  [[nodiscard]] bool finite() const {
    return bits_of(equal(all.m[1] * 0.0F, F{})) == (1U << (kWidth - 1)) * 2 - 1;
  }
  void add_to(MomentSums& out) const {
    for (std::size_t k = 0; k <= kPowers[Form]; ++k) out.m[k] += total(widen_sums(all.m[k]));
    if constexpr (!Core) {
      for (std::size_t k = 0; k <= kCross[Form]; ++k) out.x[k] += total(widen_sums(all.x[k]));
      out.d1 += total(widen_sums(all.d1)), out.d2 += total(widen_sums(all.d2));
    }
  }
};

/// Where nothing is known to follow, prefetching the current data again does no harm.
DRIFTGATE_INLINE const unsigned char* ahead_of(const unsigned char* known, const unsigned char* here) {
  return known != nullptr ? known : here;
}

/// One tile, with what all of its vectors share.
template <std::uint32_t Dtype, bool Exact, std::size_t Form, bool Core>
struct MomentTile {
  using Block = MomentBlockSums<Form, Core>;
  static constexpr std::size_t kBytes = Dtype == DRIFTGATE_F32 ? 4 : 2;
  const Columns columns;
  const WideFrame frame;
  const Exponential exponential;
  const MomentTileScratch scratch;
  const unsigned char* const train_ahead;
  const unsigned char* const inf_ahead;
  float top_e = 0;
  std::size_t counted = 0;

  static MomentTile of(const TileInput& input, const Columns& columns, const MomentFrame& frame,
                       MomentTileScratch scratch) {
    return {columns,
            WideFrame(frame),
            make_exponential(),
            scratch,
            ahead_of(input.train_ahead, columns.train),
            ahead_of(input.inf_ahead, columns.inf)};
  }
  DRIFTGATE_INLINE F weight(F x) const {
    const F shifted = fused(x, frame.steps, frame.magic);
    F r = fused_less(x, frame.steps, shifted - frame.magic);
    if constexpr (Exact) r = fused(x, frame.steps_low, r);
    return exponential(r, shifted);
  }
  /// x − top.
  DRIFTGATE_INLINE F cross(F kept) const {
    if constexpr (!Exact) return kept - frame.top;
    return fused_less(kept, frame.inverse_temperature, frame.top);
  }
  struct Pair {
    F e, d, x;
  };
  /// One exponential for each pair.
  DRIFTGATE_INLINE Pair weigh(std::size_t i, Block& block) const {
    __builtin_prefetch(train_ahead + i * kBytes, 0, 2);  // into the second cache
    __builtin_prefetch(inf_ahead + i * kBytes, 0, 2);
    const F z = load_logits<Dtype>(columns.train, i), y = load_logits<Dtype>(columns.inf, i);
    block.most = larger(block.most, z);
    const F d = moment_drift<Exact>(z, y, frame);
    const F kept = larger(z, frame.floor);
    const F e = weight(kept);
    block.drifts.add(d);
    if constexpr (!Core) {
      store(scratch.e + i, e);
      store(scratch.d + i, d);
    }
    return {e, d, cross(kept)};
  }
  /// Sums whole vectors from `begin` on, block by block, up to a block with a logit above `top`, whose first
  /// column it returns. The exponential of the next pair is started before the last one is summed, because
  /// the chain of dependent operations of one vector is longer than the out-of-order window of the processor.
  /// Not inlined, and with its sums stored in place, so that the loop keeps everything in registers.
  [[gnu::noinline]] std::size_t add(std::size_t begin, std::size_t end, float top, Block* out) const {
    const MomentTile self = *this;
    const F limit = fill(top);
    for (; begin < end; begin += kMomentBlock, ++out) {
      const std::size_t stop = begin + kMomentBlock < end ? begin + kMomentBlock : end;
      Block block;
      block.clear();
      Pair pair = self.weigh(begin, block);
      for (std::size_t i = begin + kWidth; i < stop; i += kWidth) {
        const Pair next = self.weigh(i, block);
        add_powers<Form, Core>(pair.e, pair.d, pair.x, block.sums);
        pair = next;
      }
      add_powers<Form, Core>(pair.e, pair.d, pair.x, block.sums);
      *out = block;
      if (mask_above(block.most, limit) != 0) return begin;
    }
    return end;
  }
  /// Sums a vector that has columns which are repeated, masked (−∞ in both kernels) or kept apart from the
  /// sums.
  void add_carefully(std::size_t i, bool masked, std::size_t top, Block& block) {
    const F z = load_logits<Dtype>(columns.train, i), y = load_logits<Dtype>(columns.inf, i);
    const std::size_t here = columns.count - i;
    std::uint32_t valid = here < kWidth ? (1U << here) - 1 : (1U << (kWidth - 1)) * 2 - 1;
    if (masked) {
      const F least = fill(-__builtin_inff());
      valid &= ~(bits_of(equal(z, least)) & bits_of(equal(y, least)));
    }
    counted += static_cast<std::size_t>(__builtin_popcount(valid));
    const Lanes real = lanes(valid);
    F d = moment_drift<Exact>(z, y, frame);
    if (valid != (1U << (kWidth - 1)) * 2 - 1) d = only(real, d);
    const F kept = larger(z, frame.floor);
    F e = only(real, weight(kept));
    block.drifts.add(d);
    store(scratch.e + i, e);
    store(scratch.d + i, d);
    if (top >= i && top < i + kWidth) {
      top_e = e[top - i];
      e = only(lanes(valid & ~(1U << (top - i))), e);
    }
    add_powers<Form, Core>(e, d, cross(kept), block.sums);
  }
  /// Sums the vectors of a block. Those that hold `top` or less than a whole vector, or all of them if any
  /// column may be masked, take the slower path.
  void add_any(std::size_t begin, std::size_t end, bool masked, std::size_t top,
               MomentTotals<Form, Core>& totals) {
    const std::size_t whole = masked ? begin : columns.count / kWidth * kWidth;
    const std::size_t top_vector = top == kNoColumn ? kNoColumn : top / kWidth * kWidth;
    Block careful;
    careful.clear();
    for (std::size_t i = begin; i < end;) {
      std::size_t stop = end < whole ? end : whole;
      if (top_vector >= i && top_vector < stop) stop = top_vector;
      if (stop > i) {
        Block plain;
        add(i, stop, __builtin_inff(), &plain);
        totals.add(plain);
        counted += stop - i;
        i = stop;
      } else {
        add_carefully(i, masked, top, careful);
        i += kWidth;
      }
    }
    totals.add(careful);
  }

  /// Adds the sums of the tile, if it is accepted.
  MomentStatus commit(const MomentTotals<Form, Core>& totals, std::size_t top, MomentSums& out) const {
    if (!totals.finite()) return MomentStatus::nonfinite;
    const auto low = static_cast<double>(totals.drifts.least());
    const auto high = static_cast<double>(totals.drifts.most());
    if (!(low >= -kFarDrift && high <= kFarDrift)) return MomentStatus::far;
    totals.add_to(out);
    out.n += static_cast<double>(counted);
    out.low = low < out.low ? low : out.low;
    out.high = high > out.high ? high : out.high;
    if (top != kNoColumn) out.top_e = top_e;
    return MomentStatus::done;
  }

  static MomentStatus sum(const TileInput& input, const MomentFrame& frame, bool masked, std::size_t top,
                          MomentTileScratch scratch, MomentSums& out) {
    Padding padding;
    const Columns columns = whole_vectors(input, padding);
    MomentTile tile = of(input, columns, frame, scratch);
    MomentTotals<Form, Core> totals;
    for (std::size_t begin = 0; begin < columns.padded; begin += kMomentBlock) {
      const std::size_t end = begin + kMomentBlock < columns.padded ? begin + kMomentBlock : columns.padded;
      tile.add_any(begin, end, masked, top, totals);
    }
    return tile.commit(totals, top, out);
  }

  static MomentStatus sum_and_scan(const TileInput& input, const MomentFrame& frame, std::size_t& first,
                                   std::size_t top, MomentTileScratch scratch, MomentSums& out,
                                   MomentMaxima& maxima) {
    const std::size_t count = input.columns;
    const Columns columns{input.train, input.inf, count, count};
    MomentTile tile = of(input, columns, frame, scratch);
    MomentTotals<Form, Core> totals;
    std::size_t begin = first;
    if (top != kNoColumn) {
      const std::size_t end = begin + kMomentBlock < count ? begin + kMomentBlock : count;
      tile.add_any(begin, end, false, top, totals);
      scan_block<Dtype>(columns, begin, end, maxima);
      begin = end;
    }
    Block blocks[kTileColumns / kMomentBlock];
    const std::size_t stopped = tile.add(begin, count, frame.top_z, blocks);
    for (const Block* block = blocks; begin < stopped; begin += kMomentBlock, ++block) {
      totals.add(*block);
      store(maxima.lanes + begin / kMomentBlock * kMostLanes, block->most);
    }
    if (stopped > first) {
      tile.counted = stopped - first;
      const MomentStatus status = tile.commit(totals, top, out);
      if (status != MomentStatus::done) return status;
    }
    first = stopped;
    return stopped < count ? MomentStatus::higher : MomentStatus::done;
  }
};

/// Calls `run` with a tile type for the type of the logits and the plan.
template <std::uint32_t Dtype, bool Exact, typename Run>
MomentStatus with_form(MomentPlan plan, const Run& run) {
  if (plan.form == 0 && plan.core) return run.template operator()<MomentTile<Dtype, Exact, 0, true>>();
  if (plan.form == 0) return run.template operator()<MomentTile<Dtype, Exact, 0, false>>();
  if (plan.form == 1) return run.template operator()<MomentTile<Dtype, Exact, 1, false>>();
  return run.template operator()<MomentTile<Dtype, Exact, 2, false>>();
}
template <std::uint32_t Dtype, typename Run>
MomentStatus with_exactness(MomentPlan plan, const Run& run) {
  return plan.exact ? with_form<Dtype, true>(plan, run) : with_form<Dtype, false>(plan, run);
}
template <typename Run>
MomentStatus with_tile(std::uint32_t dtype, MomentPlan plan, const Run& run) {
  if (dtype == DRIFTGATE_F32) return with_exactness<DRIFTGATE_F32>(plan, run);
  if (dtype == DRIFTGATE_BF16) return with_exactness<DRIFTGATE_BF16>(plan, run);
  return with_exactness<DRIFTGATE_F16>(plan, run);
}

MomentStatus moment_sum(const TileInput& input, const MomentFrame& frame, MomentPlan plan, bool masked,
                        std::size_t top, MomentTileScratch scratch, MomentSums& sums) {
  return with_tile(input.train_dtype, plan,
                   [&]<typename Tile> { return Tile::sum(input, frame, masked, top, scratch, sums); });
}

MomentStatus moment_sum_and_scan(const TileInput& input, const MomentFrame& frame, MomentPlan plan,
                                 std::size_t& begin, std::size_t top, MomentTileScratch scratch,
                                 MomentSums& sums, MomentMaxima& maxima) {
  return with_tile(input.train_dtype, plan, [&]<typename Tile> {
    return Tile::sum_and_scan(input, frame, begin, top, scratch, sums, maxima);
  });
}

/// Offers the logits that are above `sure` and above the last entry of the list. `maxima` are those of the
/// K_train logits, which other logits exceed by at most `above`.
template <std::uint32_t Dtype>
void offer_logits(TopList& list, const unsigned char* logits, const MomentMaxima& maxima, float sure,
                  float above, const Columns& columns, std::uint32_t first_id) {
  alignas(64) float values[kWidth];
  const auto least = [&list, sure] {
    if (list.size < list.capacity) return sure;
    const auto last = static_cast<float>(list.entries[list.size - 1].value);
    return last > sure ? last : sure;
  };
  for (std::size_t begin = 0, at = 0; begin < columns.padded; begin += kMomentBlock, at += kMostLanes) {
    F limit = fill(least());
    if (mask_above(load(maxima.lanes + at), limit - above) == 0) continue;
    const std::size_t end = begin + kMomentBlock < columns.padded ? begin + kMomentBlock : columns.padded;
    for (std::size_t i = begin; i < end; i += kWidth) {
      const F v = load_logits<Dtype>(logits, i);
      std::uint32_t mask = mask_above(v, limit);
      if (mask == 0) continue;
      store(values, v);
      for (; mask != 0; mask &= mask - 1) {
        const auto lane = static_cast<std::size_t>(__builtin_ctz(mask));
        if (i + lane >= columns.count) break;
        insert(list, static_cast<double>(values[lane]), first_id + static_cast<std::uint32_t>(i + lane));
      }
      limit = fill(least());
    }
  }
}

template <std::uint32_t Dtype>
void offer_tops(const Columns& columns, const MomentMaxima& maxima, const TopBounds& bounds,
                std::uint32_t first_id, TopList& top_train, TopList& top_inf) {
  offer_logits<Dtype>(top_train, columns.train, maxima, bounds.train, 0, columns, first_id);
  offer_logits<Dtype>(top_inf, columns.inf, maxima, bounds.train - bounds.drift.high, -bounds.drift.low,
                      columns, first_id);
}

template <std::uint32_t Dtype>
DriftRange drift_range(const Columns& columns) {
  F low = fill(__builtin_inff()), high = -low;
  for (std::size_t i = 0; i < columns.padded; i += kWidth) {
    const F s = load_logits<Dtype>(columns.train, i) - load_logits<Dtype>(columns.inf, i);
    low = smaller(s, low);  // a NaN leaves the second as it is
    high = larger(s, high);
  }
  return {smallest(low), largest(high)};
}

float moment_scan(const TileInput& input, MomentMaxima& out) {
  Padding padding;
  const Columns columns = whole_vectors(input, padding);
  const auto scan = input.train_dtype == DRIFTGATE_F32    ? scan_block<DRIFTGATE_F32>
                    : input.train_dtype == DRIFTGATE_BF16 ? scan_block<DRIFTGATE_BF16>
                                                          : scan_block<DRIFTGATE_F16>;
  F most = fill(-__builtin_inff());
  for (std::size_t begin = 0; begin < columns.padded; begin += kMomentBlock) {
    scan(columns, begin, begin + kMomentBlock < columns.padded ? begin + kMomentBlock : columns.padded, out);
    most = larger(most, load(out.lanes + begin / kMomentBlock * kMostLanes));
  }
  return largest(most);
}

std::size_t moment_first_top(const TileInput& input, const MomentMaxima& maxima, float top_z) {
  Padding padding;
  const unsigned char* train = whole_vectors(input, padding).train;
  const auto first = input.train_dtype == DRIFTGATE_F32    ? first_of<DRIFTGATE_F32>
                     : input.train_dtype == DRIFTGATE_BF16 ? first_of<DRIFTGATE_BF16>
                                                           : first_of<DRIFTGATE_F16>;
  return first(train, {maxima.lanes, kMomentBlock, kMostLanes}, top_z);
}

/// The largest logit of each lane is a logit of the row, so that the `count` largest of the lanes are no more
/// than the `count` largest of the row: returns the least lane that fewer than `count` others exceed.
float moment_surely_below(const MomentTileFrame* frames, std::size_t tiles, std::uint32_t count) {
  constexpr float kNone = -__builtin_inff();
  if (count > kWidth || tiles == 0) return kNone;
  F all = fill(kNone);
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    for (std::size_t at = 0; at < kTileColumns / kMomentBlock; ++at)
      all = larger(all, load(frames[tile].maxima.lanes + at * kMostLanes));
  }
  float out = -kNone;
  for (std::size_t lane = 0; lane < kWidth; ++lane) {
    const auto above_it = static_cast<std::uint32_t>(__builtin_popcount(mask_above(all, fill(all[lane]))));
    if (above_it < count && all[lane] < out) out = all[lane];
  }
  return out - (out < 0 ? -out : out) * 1e-6F - 1e-30F;
}

void moment_offer(const TileInput& input, const MomentMaxima& maxima, const TopBounds& bounds,
                  TopList& top_train, TopList& top_inf) {
  Padding padding;
  const Columns columns = whole_vectors(input, padding);
  const auto offer = input.train_dtype == DRIFTGATE_F32    ? offer_tops<DRIFTGATE_F32>
                     : input.train_dtype == DRIFTGATE_BF16 ? offer_tops<DRIFTGATE_BF16>
                                                           : offer_tops<DRIFTGATE_F16>;
  offer(columns, maxima, bounds, input.first_id, top_train, top_inf);
}

DriftRange moment_range(const TileInput& input) {
  Padding padding;
  const Columns columns = whole_vectors(input, padding);
  if (input.train_dtype == DRIFTGATE_F32) return drift_range<DRIFTGATE_F32>(columns);
  if (input.train_dtype == DRIFTGATE_BF16) return drift_range<DRIFTGATE_BF16>(columns);
  return drift_range<DRIFTGATE_F16>(columns);
}

/// |expm1(−d)/d| with as many powers as |d| ≤ kLevels[Level] needs (kFarDrift at the last level).
template <int Level>
struct Shrink;
template <>
struct Shrink<0> {
  static constexpr float terms[] = {1.0F, -1.0F / 2, 1.0F / 6, -1.0F / 24};
};
template <>
struct Shrink<1> {
  static constexpr float terms[] = {1.0F, -1.0F / 2, 1.0F / 6, -1.0F / 24, 1.0F / 120, -1.0F / 720};
};
template <>
struct Shrink<2> {
  static constexpr float terms[] = {1.0F,          -1.0F / 2,       1.0F / 6,       -1.0F / 24,
                                    1.0F / 120,    -1.0F / 720,     1.0F / 5040,    -1.0F / 40320,
                                    1.0F / 362880, -1.0F / 3628800, 1.0F / 39916800};
};

template <int Level>
void distances_at(const float* e_in, const float* d_in, std::size_t padded, float offset,
                  const float (&least)[kHeads], MomentDistances& out) {
  const F shift = fill(offset), wide = fill(least[0]), close = fill(least[1]);
  F low0 = fill(__builtin_inff()), high0 = -low0, low1 = low0, high1 = high0;
  f64x8 tv{}, p0{}, p1{}, gap0{}, gap1{};
  for (std::size_t begin = 0; begin < padded; begin += kMomentBlock) {
    const std::size_t end = begin + kMomentBlock < padded ? begin + kMomentBlock : padded;
    F sum{}, tail0{}, tail1{}, less0{}, less1{};
    for (std::size_t i = begin; i < end; i += kWidth) {
      const F e = load(e_in + i), drift = load(d_in + i);
      const F d = drift + shift;
      const F gap = (e * d) * horner(d, Shrink<Level>::terms);
      sum += absolute(gap);
      const Lanes in0 = above(e, wide), in1 = above(e, close);
      low0 = smaller_in(in0, low0, drift), high0 = larger_in(in0, high0, drift);
      low1 = smaller_in(in1, low1, drift), high1 = larger_in(in1, high1, drift);
      tail0 = add_outside(e, wide, tail0, e), less0 = add_outside(e, wide, less0, gap);
      tail1 = add_outside(e, close, tail1, e), less1 = add_outside(e, close, less1, gap);
    }
    tv += widen_sums(sum);
    p0 += widen_sums(tail0), p1 += widen_sums(tail1);
    gap0 += widen_sums(less0), gap1 += widen_sums(less1);
  }
  out = {total(tv),
         {total(p0), total(p1)},
         {total(gap0), total(gap1)},
         {smallest(low0), smallest(low1)},
         {largest(high0), largest(high1)}};
}

void moment_distances(const float* e, const float* d, std::size_t columns, float offset, float size,
                      const float (&least)[kHeads], MomentDistances& out) {
  const std::size_t padded = (columns + kWidth - 1) / kWidth * kWidth;
  if (size <= static_cast<float>(kLevels[0])) return distances_at<0>(e, d, padded, offset, least, out);
  if (size <= static_cast<float>(kLevels[1])) return distances_at<1>(e, d, padded, offset, least, out);
  distances_at<2>(e, d, padded, offset, least, out);
}

constexpr MomentKernel kMoments = {
    kSteps,       kWidth,       moment_scan, moment_first_top,    moment_surely_below,
    moment_offer, moment_range, moment_sum,  moment_sum_and_scan, moment_distances};

}  // namespace

extern const TileKernel DRIFTGATE_MOMENT_KERNEL;
const TileKernel DRIFTGATE_MOMENT_KERNEL = {DRIFTGATE_KERNEL_NAME " float32 moments", narrow_pass1,
                                            pass1_drift, narrow_pass2, widen, &kMoments};

}  // namespace driftgate::gpu::cpu
