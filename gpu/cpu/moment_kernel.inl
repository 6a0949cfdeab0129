// Sums of powers in float32 (moment_kernel.hpp), included after narrow_kernel.inl, whose pieces it uses.

#include "gpu/cpu/moment_kernel.hpp"

namespace driftgate::gpu::cpu {

namespace {

constexpr std::size_t kMomentBlock = 512;  // columns that one float32 sum runs over
constexpr double kFarDrift = 1.5;            // beyond it no series is of use

// 2^(j/32) as bits, less j << 18, which the shifted exponent brings along; every fourth is 2^(j/8) with j
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

template <std::size_t Form, bool Core>
struct MomentVectors {
  F m[kPowers[Form] + 1]{}, x[kCross[Form] + 1]{}, d1{}, d2{};
};

/// d' of a vector of pairs. `Exact`: with what z − y rounded off (Knuth's two-sum).
template <bool Exact>
DRIFTGATE_INLINE F moment_drift(F z, F y, const WideFrame& frame) {
  const F s = z - y;
  if constexpr (!Exact) return fused_less(s, frame.inverse_temperature, frame.pivot);
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

/// What a tile is summed into before it is known to be good.
template <std::size_t Form, bool Core>
struct MomentTotals {
  f64x8 m[kPowers[Form] + 1]{}, x[kCross[Form] + 1]{}, d1{}, d2{};
  F bad{};  ///< NaN or infinite when a drift was
  DRIFTGATE_INLINE void add(const MomentVectors<Form, Core>& sums) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k <= kPowers[Form]; ++k) m[k] += widen_sums(sums.m[k]);
    bad += sums.m[1] * 0.0F;
    if constexpr (!Core) {
#pragma GCC unroll 16
      for (std::size_t k = 0; k <= kCross[Form]; ++k) x[k] += widen_sums(sums.x[k]);
      d1 += widen_sums(sums.d1), d2 += widen_sums(sums.d2);
    }
  }
  void add_to(MomentSums& out) const {
    for (std::size_t k = 0; k <= kPowers[Form]; ++k) out.m[k] += total(m[k]);
    if constexpr (!Core) {
      for (std::size_t k = 0; k <= kCross[Form]; ++k) out.x[k] += total(x[k]);
      out.d1 += total(d1), out.d2 += total(d2);
    }
  }
};

/// To fetch what is being read does no harm.
DRIFTGATE_INLINE const unsigned char* ahead_of(const unsigned char* known, const unsigned char* here) {
  return known != nullptr ? known : here;
}

/// One tile; what its vectors have in common.
template <std::uint32_t Dtype, bool Exact, std::size_t Form, bool Core>
struct MomentTileSum {
  const Columns columns;
  const WideFrame frame;
  const Exponential exponential;
  float* const e_out;
  float* const d_out;
  const unsigned char* const train_ahead;
  const unsigned char* const inf_ahead;
  Range range{fill(0.0F), fill(0.0F)};  // d' of the pivot's column is 0
  float top_e = 0;
  std::size_t counted = 0;

  DRIFTGATE_INLINE F weight(F x) const {
    const F shifted = fused(x, frame.steps, frame.magic);
    F r = fused_less(x, frame.steps, shifted - frame.magic);
    if constexpr (Exact) r = fused(x, frame.steps_low, r);
    return exponential(r, shifted);
  }
  struct Pair {
    F e, d, x;
  };
  struct Tops {
    F z, y;
  };
  Tops tops{fill(-__builtin_inff()), fill(-__builtin_inff())};
  /// One exponential for each pair.
  DRIFTGATE_INLINE Pair weigh(std::size_t i) {
    constexpr std::size_t kBytes = Dtype == DRIFTGATE_F32 ? 4 : 2;
    __builtin_prefetch(train_ahead + i * kBytes);
    __builtin_prefetch(inf_ahead + i * kBytes);
    return weigh(i, load_logits<Dtype>(columns.train, i), load_logits<Dtype>(columns.inf, i));
  }
  DRIFTGATE_INLINE Pair weigh(std::size_t i, Tops& part) {
    constexpr std::size_t kBytes = Dtype == DRIFTGATE_F32 ? 4 : 2;
    __builtin_prefetch(train_ahead + i * kBytes, 0, 2);  // into the second cache
    __builtin_prefetch(inf_ahead + i * kBytes, 0, 2);
    const F z = load_logits<Dtype>(columns.train, i), y = load_logits<Dtype>(columns.inf, i);
    part.z = larger(part.z, z), part.y = larger(part.y, y);
    return weigh(i, z, y);
  }
  DRIFTGATE_INLINE Pair weigh(std::size_t i, F z, F y) {
    const F d = moment_drift<Exact>(z, y, frame);
    const F kept = larger(z, frame.floor);
    const F e = weight(kept);
    range.low = smaller(range.low, d);
    range.high = larger(range.high, d);
    if constexpr (!Core) {
      store(e_out + i, e);
      store(d_out + i, d);
    }
    return {e, d, fused_less(kept, frame.inverse_temperature, frame.top)};
  }
  /// Whole vectors from `begin` on. The next pair is weighed before the last is summed: the chain of
  /// dependent operations of one vector is longer than what the processor keeps in view.
  DRIFTGATE_INLINE void add(std::size_t begin, std::size_t end, MomentVectors<Form, Core>& sums) {
    if (begin >= end) return;
    Pair pair = weigh(begin);
    for (std::size_t i = begin + kWidth; i < end; i += kWidth) {
      const Pair next = weigh(i);
      add_powers<Form, Core>(pair.e, pair.d, pair.x, sums);
      pair = next;
    }
    add_powers<Form, Core>(pair.e, pair.d, pair.x, sums);
  }
  /// As `add`, with the largest logits of each part.
  DRIFTGATE_INLINE void add_and_scan(std::size_t begin, std::size_t end, MomentVectors<Form, Core>& sums,
                                     MomentScan& scan) {
    Tops part{fill(-__builtin_inff()), fill(-__builtin_inff())};
    Pair pair = weigh(begin, part);
    std::size_t i = begin + kWidth, at = begin / 4;
    for (std::size_t stop = begin + kScanColumns;; stop += kScanColumns, at += kWidth) {
      if (stop > end) stop = end;
      for (; i < stop; i += kWidth) {
        const Pair next = weigh(i, part);
        add_powers<Form, Core>(pair.e, pair.d, pair.x, sums);
        pair = next;
      }
      store(scan.max_z + at, part.z);
      store(scan.max_y + at, part.y);
      tops.z = larger(tops.z, part.z), tops.y = larger(tops.y, part.y);
      if (stop == end) break;
      part = {fill(-__builtin_inff()), fill(-__builtin_inff())};
    }
    add_powers<Form, Core>(pair.e, pair.d, pair.x, sums);
  }
  /// A vector with columns that are repeated, masked (-Inf in both) or left out of the sums.
  void add_carefully(std::size_t i, bool masked, std::size_t top, MomentVectors<Form, Core>& sums) {
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
    range.low = smaller(range.low, d);
    range.high = larger(range.high, d);
    store(e_out + i, e);
    store(d_out + i, d);
    if (top >= i && top < i + kWidth) {
      top_e = e[top - i];
      e = only(lanes(valid & ~(1U << (top - i))), e);
    }
    add_powers<Form, Core>(e, d, fused_less(kept, frame.inverse_temperature, frame.top), sums);
  }
};

/// Adds what a tile was summed into, if it is good.
template <std::size_t Form, bool Core>
MomentStatus commit(const MomentTotals<Form, Core>& totals, const Range& range, std::size_t counted,
                    MomentSums& out) {
  if (bits_of(equal(totals.bad, F{})) != (1U << (kWidth - 1)) * 2 - 1) return MomentStatus::nonfinite;
  const auto low = static_cast<double>(smallest(range.low));
  const auto high = static_cast<double>(largest(range.high));
  if (!(low >= -kFarDrift && high <= kFarDrift)) return MomentStatus::far;
  totals.add_to(out);
  out.n += static_cast<double>(counted);
  out.low = low < out.low ? low : out.low;
  out.high = high > out.high ? high : out.high;
  return MomentStatus::done;
}

template <std::uint32_t Dtype, bool Exact, std::size_t Form, bool Core>
MomentStatus moment_tile(const TileInput& input, const MomentFrame& frame, bool masked, std::size_t top,
                         float* e, float* d, MomentSums& out) {
  Padding padding;
  const Columns columns = whole_vectors(input, padding);
  MomentTileSum<Dtype, Exact, Form, Core> tile{
      columns, WideFrame(frame), make_exponential(), e, d, ahead_of(input.train_ahead, columns.train),
      ahead_of(input.inf_ahead, columns.inf)};
  MomentTotals<Form, Core> totals;
  const std::size_t plain = columns.count / kWidth * kWidth;  // whole vectors
  const std::size_t top_vector = top == kNoColumn ? kNoColumn : top / kWidth * kWidth;
  for (std::size_t begin = 0; begin < columns.padded; begin += kMomentBlock) {
    const std::size_t end = begin + kMomentBlock < columns.padded ? begin + kMomentBlock : columns.padded;
    MomentVectors<Form, Core> sums;
    for (std::size_t i = begin; i < end;) {
      std::size_t stop = end < plain ? end : plain;
      if (top_vector >= i && top_vector < stop) stop = top_vector;
      if (masked) stop = i;
      tile.counted += stop > i ? stop - i : 0;
      tile.add(i, stop, sums);
      if (stop > i) i = stop;
      if (i < end) tile.add_carefully(i, masked, top, sums), i += kWidth;
    }
    totals.add(sums);
  }
  const MomentStatus status = commit(totals, tile.range, tile.counted, out);
  if (status == MomentStatus::done && top != kNoColumn) out.top_e = tile.top_e;
  return status;
}

template <std::uint32_t Dtype, bool Exact, std::size_t Form, bool Core>
MomentStatus scanned_tile(const TileInput& input, const MomentFrame& frame, float* e, float* d,
                          MomentSums& out, MomentScan& scan) {
  const auto* train = static_cast<const unsigned char*>(input.train);
  const auto* inf = static_cast<const unsigned char*>(input.inf);
  const std::size_t count = input.columns;
  MomentTileSum<Dtype, Exact, Form, Core> tile{
      {train, inf, count, count}, WideFrame(frame), make_exponential(), e, d, ahead_of(input.train_ahead, train),
      ahead_of(input.inf_ahead, inf)};
  MomentTotals<Form, Core> totals;
  const F top_z = fill(frame.top_z);
  for (std::size_t begin = 0; begin < count; begin += kMomentBlock) {
    MomentVectors<Form, Core> sums;
    tile.add_and_scan(begin, begin + kMomentBlock < count ? begin + kMomentBlock : count, sums, scan);
    if (mask_above(tile.tops.z, top_z) != 0) return MomentStatus::higher;
    totals.add(sums);
  }
  scan.top_z = largest(tile.tops.z), scan.top_y = largest(tile.tops.y);
  return commit(totals, tile.range, count, out);
}

template <std::uint32_t Dtype, bool Exact>
MomentStatus moment_by_form(const TileInput& input, const MomentFrame& frame, std::size_t form, bool core,
                            bool masked, std::size_t top, float* e, float* d, MomentSums& sums) {
  if (form == 0 && core) return moment_tile<Dtype, Exact, 0, true>(input, frame, masked, top, e, d, sums);
  if (form == 0) return moment_tile<Dtype, Exact, 0, false>(input, frame, masked, top, e, d, sums);
  if (form == 1) return moment_tile<Dtype, Exact, 1, false>(input, frame, masked, top, e, d, sums);
  return moment_tile<Dtype, Exact, 2, false>(input, frame, masked, top, e, d, sums);
}

template <std::uint32_t Dtype>
MomentStatus moment_by_dtype(const TileInput& input, const MomentFrame& frame, std::size_t form, bool exact,
                             bool core, bool masked, std::size_t top, float* e, float* d, MomentSums& sums) {
  if (exact) return moment_by_form<Dtype, true>(input, frame, form, core, masked, top, e, d, sums);
  return moment_by_form<Dtype, false>(input, frame, form, core, masked, top, e, d, sums);
}

MomentStatus moment_sum(const TileInput& input, const MomentFrame& frame, std::size_t form, bool exact,
                        bool core, bool masked, std::size_t top, float* e, float* d, MomentSums& sums) {
  const auto run = input.train_dtype == DRIFTGATE_F32    ? moment_by_dtype<DRIFTGATE_F32>
                   : input.train_dtype == DRIFTGATE_BF16 ? moment_by_dtype<DRIFTGATE_BF16>
                                                         : moment_by_dtype<DRIFTGATE_F16>;
  return run(input, frame, form, exact, core, masked, top, e, d, sums);
}

template <std::uint32_t Dtype, bool Exact>
MomentStatus scanned_by_form(const TileInput& input, const MomentFrame& frame, std::size_t form, bool core,
                             float* e, float* d, MomentSums& sums, MomentScan& scan) {
  if (form == 0 && core) return scanned_tile<Dtype, Exact, 0, true>(input, frame, e, d, sums, scan);
  if (form == 0) return scanned_tile<Dtype, Exact, 0, false>(input, frame, e, d, sums, scan);
  if (form == 1) return scanned_tile<Dtype, Exact, 1, false>(input, frame, e, d, sums, scan);
  return scanned_tile<Dtype, Exact, 2, false>(input, frame, e, d, sums, scan);
}

MomentStatus moment_sum_and_scan(const TileInput& input, const MomentFrame& frame, std::size_t form,
                                 bool exact, bool core, float* e, float* d, MomentSums& sums,
                                 MomentScan& scan) {
  const auto run = exact ? scanned_by_form<DRIFTGATE_F32, true> : scanned_by_form<DRIFTGATE_F32, false>;
  return run(input, frame, form, core, e, d, sums, scan);
}

template <std::uint32_t Dtype>
void scan_tops(const Columns& columns, MomentScan& out) {
  F all_z = fill(-__builtin_inff()), all_y = all_z;
  std::size_t at = 0;
  for (std::size_t begin = 0; begin < columns.padded; begin += kScanColumns, at += kWidth) {
    const std::size_t end = begin + kScanColumns < columns.padded ? begin + kScanColumns : columns.padded;
    F max_z = load_logits<Dtype>(columns.train, begin), max_y = load_logits<Dtype>(columns.inf, begin);
    for (std::size_t i = begin + kWidth; i < end; i += kWidth) {
      max_z = larger(max_z, load_logits<Dtype>(columns.train, i));
      max_y = larger(max_y, load_logits<Dtype>(columns.inf, i));
    }
    store(out.max_z + at, max_z);
    store(out.max_y + at, max_y);
    all_z = larger(all_z, max_z);
    all_y = larger(all_y, max_y);
  }
  out.top_z = largest(all_z), out.top_y = largest(all_y);
}

template <std::uint32_t Dtype>
void offer_tops(const Columns& columns, const MomentScan& scan, std::uint32_t first_id, TopList& top_train,
                TopList& top_inf) {
  offer_top<Dtype>(top_train, columns.train, scan.max_z, columns, scan.top_z, first_id);
  offer_top<Dtype>(top_inf, columns.inf, scan.max_y, columns, scan.top_y, first_id);
}

template <std::uint32_t Dtype>
void drift_range(const Columns& columns, float& least, float& most) {
  F low = fill(__builtin_inff()), high = -low;
  for (std::size_t i = 0; i < columns.padded; i += kWidth) {
    const F s = load_logits<Dtype>(columns.train, i) - load_logits<Dtype>(columns.inf, i);
    low = smaller(s, low);  // a NaN leaves the second as it is
    high = larger(s, high);
  }
  least = smallest(low), most = largest(high);
}

void moment_scan(const TileInput& input, MomentScan& out) {
  Padding padding;
  const Columns columns = whole_vectors(input, padding);
  if (input.train_dtype == DRIFTGATE_F32) return scan_tops<DRIFTGATE_F32>(columns, out);
  if (input.train_dtype == DRIFTGATE_BF16) return scan_tops<DRIFTGATE_BF16>(columns, out);
  scan_tops<DRIFTGATE_F16>(columns, out);
}

std::size_t moment_first_top(const TileInput& input, const MomentScan& scan) {
  Padding padding;
  const unsigned char* train = whole_vectors(input, padding).train;
  if (input.train_dtype == DRIFTGATE_F32) return first_of<DRIFTGATE_F32>(train, scan.max_z, scan.top_z);
  if (input.train_dtype == DRIFTGATE_BF16) return first_of<DRIFTGATE_BF16>(train, scan.max_z, scan.top_z);
  return first_of<DRIFTGATE_F16>(train, scan.max_z, scan.top_z);
}

void moment_offer(const TileInput& input, const MomentScan& scan, TopList& top_train, TopList& top_inf) {
  Padding padding;
  const Columns columns = whole_vectors(input, padding);
  const auto offer = input.train_dtype == DRIFTGATE_F32    ? offer_tops<DRIFTGATE_F32>
                     : input.train_dtype == DRIFTGATE_BF16 ? offer_tops<DRIFTGATE_BF16>
                                                           : offer_tops<DRIFTGATE_F16>;
  offer(columns, scan, input.first_id, top_train, top_inf);
}

void moment_range(const TileInput& input, float& low, float& high) {
  Padding padding;
  const Columns columns = whole_vectors(input, padding);
  if (input.train_dtype == DRIFTGATE_F32) return drift_range<DRIFTGATE_F32>(columns, low, high);
  if (input.train_dtype == DRIFTGATE_BF16) return drift_range<DRIFTGATE_BF16>(columns, low, high);
  drift_range<DRIFTGATE_F16>(columns, low, high);
}

/// |expm1(−d)/d| by as many powers as |d| ≤ kLevels[Level] (at the last: kFarDrift) needs.
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

constexpr MomentKernel kMoments = {kSteps,          kWidth,       moment_scan, moment_first_top,
                                   moment_offer,    moment_range, moment_sum,  moment_sum_and_scan,
                                   moment_distances};

}  // namespace

extern const TileKernel DRIFTGATE_MOMENT_KERNEL;
const TileKernel DRIFTGATE_MOMENT_KERNEL = {DRIFTGATE_KERNEL_NAME " float32 moments", narrow_pass1,
                                            pass1_drift, narrow_pass2, &kMoments};

}  // namespace driftgate::gpu::cpu
