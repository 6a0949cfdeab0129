// The float32 form of tile_kernel.inl, included after it: one exponential for each pair of logits, and a
// second one where drifts are large. A tile is measured in this form when its logits allow it (see
// `narrow_pass1`), else in float64; both give the same sums. See gpu/cpu/README.md, "Tiles in float32".

#include "gpu/cpu/float_vector.inl"
#include "gpu/cpu/ratio_math.inl"

namespace driftgate::gpu::cpu {

namespace {

constexpr std::size_t kBlockColumns = 16 * kWidth;      // summed in float32, then in float64
constexpr std::size_t kScanColumns = 4 * kWidth;        // one maximum is kept for so many columns
constexpr std::size_t kPrefetchColumns = kTileColumns;  // the next tile is fetched while this one is summed
constexpr std::size_t kLeastColumns = 64;   // with fewer, errors do not average out, and float64 costs little
constexpr float kFloor = -60.0F;            // log of the least e, so that no product is subnormal
constexpr double kLargestLogit = 30'000.0;  // limited by the trick with `magic`
constexpr double kSeriesDrift = 1.0, kSeriesRatio = 1.25;  // |d'| in pass 1, |d| in pass 2, of the series
// The same of e^−d from d (ratio_math.inl): beyond, what d is rounded by, of either pass, is more than 5e-7.
constexpr double kLargestDrift = 8.0, kLargestRatio = 8.5;
constexpr double kLevels[] = {0.0625, 0.25};
constexpr int kAnyLevel = 3;           // no series
constexpr double kWellCentred = 25.0;  // (mean d')² over its variance: keeps logit_rms

template <std::uint32_t Dtype>
DRIFTGATE_INLINE F load_logits(const unsigned char* from, std::size_t column) {
  if constexpr (Dtype == DRIFTGATE_F32) return load_f32(from + 4 * column);
  if constexpr (Dtype == DRIFTGATE_BF16) return load_bf16(from + 2 * column);
  return load_f16(from + 2 * column);
}

/// φ(±x) = even ± odd for |x| ≤ kLevels[Level], at the last level kSeriesRatio.
template <int Level>
struct Series;
template <>
struct Series<0> {
  static constexpr float even[] = {0.5F, 1.0F / 24};
  static constexpr float odd[] = {1.0F / 6, 1.0F / 120};
  static constexpr float js[] = {float(kJs[0]), float(kJs[1]), float(kJs[2])};
  static constexpr float hellinger[] = {float(kHellinger[0]), float(kHellinger[1])};
};
template <>
struct Series<1> {
  static constexpr float even[] = {0.5F, 1.0F / 24, 1.0F / 720};
  static constexpr float odd[] = {1.0F / 6, 1.0F / 120, 1.0F / 5040};
  static constexpr float js[] = {float(kJs[0]), float(kJs[1]), float(kJs[2]), float(kJs[3]), float(kJs[4])};
  static constexpr float hellinger[] = {float(kHellinger[0]), float(kHellinger[1]), float(kHellinger[2])};
};
template <>
struct Series<2> {
  static constexpr float even[] = {0.5F,         1.0F / 24,      1.0F / 720,
                                   1.0F / 40320, 1.0F / 3628800, 1.0F / 479001600};
  static constexpr float odd[] = {1.0F / 6, 1.0F / 120, 1.0F / 5040, 1.0F / 362880, 1.0F / 39916800};
  static constexpr float js[] = {float(kJs[0]), float(kJs[1]), float(kJs[2]), float(kJs[3]), float(kJs[4]),
                                 float(kJs[5]), float(kJs[6]), float(kJs[7]), float(kJs[8])};
  static constexpr float hellinger[] = {float(kHellinger[0]), float(kHellinger[1]), float(kHellinger[2]),
                                        float(kHellinger[3]), float(kHellinger[4]), float(kHellinger[5])};
};

/// The logits of a tile in whole vectors; a tile that ends within a vector is copied, with its first column
/// repeated to the end.
struct Columns {
  const unsigned char* train;
  const unsigned char* inf;
  std::size_t count, padded;
};

struct Padding {
  alignas(64) unsigned char train[4 * kTileColumns], inf[4 * kTileColumns];
};

Columns whole_vectors(const TileInput& input, Padding& padding) {
  const std::size_t count = input.columns;
  const std::size_t padded = (count + kWidth - 1) / kWidth * kWidth;
  if (padded == count) return {input.train, input.inf, count, padded};
  const std::size_t bytes = element_bytes(input.train_dtype);
  std::memcpy(padding.train, input.train, count * bytes);
  std::memcpy(padding.inf, input.inf, count * bytes);
  for (std::size_t i = count; i < padded; ++i) {
    std::memcpy(padding.train + i * bytes, input.train, bytes);
    std::memcpy(padding.inf + i * bytes, input.inf, bytes);
  }
  return {padding.train, padding.inf, count, padded};
}

/// The first reading of a tile: maxima, the range of z − y up to rounding, and whether all is finite.
struct Scan {
  alignas(64) float max_z[kTileColumns / 4], max_y[kTileColumns / 4];  // a vector for each kScanColumns
  float top_z, top_y, min_drift, max_drift;
  std::size_t top;  ///< first column with top_z
  bool finite;
};

template <std::uint32_t Dtype>
void scan(const Columns& columns, Scan& out) {
  F all_z = fill(-__builtin_inff()), all_y = all_z, high = all_z, low = fill(__builtin_inff()), suspicion{};
  std::size_t at = 0;
  for (std::size_t begin = 0; begin < columns.padded; begin += kScanColumns, at += kWidth) {
    const std::size_t end = begin + kScanColumns < columns.padded ? begin + kScanColumns : columns.padded;
    F max_z = fill(-__builtin_inff()), max_y = max_z;
    for (std::size_t i = begin; i < end; i += kWidth) {
      const F z = load_logits<Dtype>(columns.train, i), y = load_logits<Dtype>(columns.inf, i);
      const F drift = z - y;
      max_z = larger(max_z, z);
      max_y = larger(max_y, y);
      high = larger(high, drift);
      low = smaller(low, drift);
      suspicion += drift * 0.0F;  // NaN for every drift that is not finite
    }
    store(out.max_z + at, max_z);
    store(out.max_y + at, max_y);
    all_z = larger(all_z, max_z);
    all_y = larger(all_y, max_y);
  }
  out.top_z = largest(all_z), out.top_y = largest(all_y);
  out.min_drift = smallest(low), out.max_drift = largest(high);
  float sum = 0;
  for (std::size_t i = 0; i < kWidth; ++i) sum += suspicion[i];
  out.finite = sum == 0.0F;
}

/// The largest logits of each `part` columns, one for each lane, `stride` floats apart.
struct Maxima {
  const float* values;
  std::size_t part, stride;
};

/// First column whose logit is `value`, which is the largest.
template <std::uint32_t Dtype>
std::size_t first_of(const unsigned char* logits, Maxima maxima, float value) {
  const F wanted = fill(value);
  std::size_t at = 0;
  while (mask_equal(load(maxima.values + at * maxima.stride), wanted) == 0) ++at;
  for (std::size_t i = at * maxima.part;; i += kWidth) {
    const std::uint32_t mask = mask_equal(load_logits<Dtype>(logits, i), wanted);
    if (mask != 0) return i + static_cast<std::size_t>(__builtin_ctz(mask));
  }
}

/// A lower bound of the last entry of a list that is still empty, so that few logits enter only to be
/// replaced: the least of as many lane maxima as the list has room for.
float surely_within(const TopList& list, const float* maxima, const Columns& columns) {
  constexpr float kNone = -__builtin_inff();
  if (list.size > 0 || list.capacity > kWidth || columns.count < kTileColumns) return kNone;
  F all = load(maxima);
  for (std::size_t at = kWidth; at < kTileColumns / 4; at += kWidth) all = larger(all, load(maxima + at));
  float lanes_left[kWidth];
  store(lanes_left, all);
  float out = kNone;
  for (std::uint32_t taken = 0; taken < list.capacity; ++taken) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < kWidth; ++i) best = lanes_left[i] > lanes_left[best] ? i : best;
    out = lanes_left[best];
    lanes_left[best] = kNone;
  }
  return out - (out < 0 ? -out : out) * 1e-6F - 1e-30F;
}

template <std::uint32_t Dtype>
void offer_top(TopList& list, const unsigned char* logits, const float* maxima, const Columns& columns,
               float most, std::uint32_t first_id) {
  alignas(64) float values[kWidth];
  if (list.size == list.capacity && !(static_cast<double>(most) > list.entries[list.size - 1].value)) return;
  const float sure = surely_within(list, maxima, columns);
  for (std::size_t begin = 0, at = 0; begin < columns.padded; begin += kScanColumns, at += kWidth) {
    const auto least = [&list, sure] {
      return list.size < list.capacity ? sure : static_cast<float>(list.entries[list.size - 1].value);
    };
    if (mask_above(load(maxima + at), fill(least())) == 0) continue;
    const std::size_t end = begin + kScanColumns < columns.padded ? begin + kScanColumns : columns.padded;
    for (std::size_t i = begin; i < end; i += kWidth) {
      const F v = load_logits<Dtype>(logits, i);
      std::uint32_t mask = mask_above(v, fill(least()));
      if (mask != 0) store(values, v);
      for (; mask != 0; mask &= mask - 1) {
        const auto lane = static_cast<std::size_t>(__builtin_ctz(mask));
        if (i + lane >= columns.count) break;
        insert(list, static_cast<double>(values[lane]), first_id + static_cast<std::uint32_t>(i + lane));
      }
    }
  }
}

/// What the second reading of a tile needs from the first.
struct Frame {
  F pivot, pivot_low;  ///< c, exactly their sum, so that d' is exactly 0 at the largest z
  F magic, top;        ///< 1.5·2^23 − k, the largest z
};

/// Sums of a block in float32, in the units of Frame, and of a tile in float64.
template <typename V>
struct NarrowSums {
  V l{}, s{}, g{}, a_p{}, a_q{}, d1{}, d2{};
  V l_q{};  ///< at kAnyLevel, where l − s + g could cancel
};
struct Range {
  F low, high;
};

/// d' = (z − y) − c. `Exact`: the rounding error of z − y is added (Knuth's two-sum), so that a constant
/// between the kernels costs no accuracy.
template <bool Exact>
DRIFTGATE_INLINE F drift_of(F z, F y, const Frame& frame) {
  const F s = z - y;
  if constexpr (!Exact) return s - frame.pivot;
  const F part = s - z;
  return (s - frame.pivot) + (((z - (s - part)) - (y + part)) - frame.pivot_low);
}

/// `Last`: the vector ends in repeated columns, which are not counted.
template <std::uint32_t Dtype, bool Exact, int Level, bool Last>
DRIFTGATE_INLINE void add_vector(const Columns& columns, std::size_t i, const Frame& frame, float* e_out,
                                 float* d_out, NarrowSums<F>& sums, Range& range) {
  constexpr std::size_t kBytes = Dtype == DRIFTGATE_F32 ? 4 : 2;
  __builtin_prefetch(columns.train + (i + kPrefetchColumns) * kBytes);
  __builtin_prefetch(columns.inf + (i + kPrefetchColumns) * kBytes);
  const F z = load_logits<Dtype>(columns.train, i);
  F d = drift_of<Exact>(z, load_logits<Dtype>(columns.inf, i), frame);
  range.low = smaller(range.low, d);
  range.high = larger(range.high, d);
  const F x = larger(z, frame.top + kFloor);
  F e = exp_scaled(x, frame.magic);
  if constexpr (Last) {
    for (std::size_t lane = columns.count - i; lane < kWidth; ++lane) e[lane] = d[lane] = 0;
  }
  store(e_out + i, e);
  store(d_out + i, d);
  const F d2 = d * d;
  F minus, f;  // φ(−d') and e^{y − m_q}
  if constexpr (Level == kAnyLevel) {
    const Ratio ratio = ratio_of(-d, F{});
    minus = ratio.phi;
    f = e * ratio.power;
    sums.l_q += f;
  } else {
    using Terms = Series<Level>;
    minus = d2 * (horner(d2, Terms::even) - d * horner(d2, Terms::odd));
    f = e + e * (minus - d);
  }
  const F below = x - frame.top;
  sums.l += e;
  sums.s += e * d;
  sums.g += e * minus;
  sums.a_p += e * below;
  sums.a_q += f * (below - d);
  sums.d1 += d;
  sums.d2 += d2;
}

/// Σe and Σe^{y − m_q} of a block in float64, without the column `top`, so that the small sum over the others
/// keeps its accuracy.
struct Rest {
  double p = 0, q = 0;
};
template <int Level>
Rest rest_of(float* e, const float* d, std::size_t begin, std::size_t end, std::size_t top) {
  const float largest_e = e[top];
  e[top] = 0;
  f64x8 p{}, q{};
  for (std::size_t i = begin; i < end; i += kWidth) {
    p += widen_sums(load(e + i));
    if constexpr (Level == kAnyLevel) q += widen_sums(load(e + i) * ratio_of(-load(d + i), F{}).power);
  }
  e[top] = largest_e;
  return {total(p), total(q)};
}

template <std::uint32_t Dtype, bool Exact, int Level>
bool sum_tile(const Columns columns, const Scan& found, const Frame& frame, double scale, Tile& tile,
              Pass1& out) {
  float* const e = tile.narrow_e;  // local: a store to scratch could change a member of `tile`
  float* const d = tile.narrow_drift;
  NarrowSums<f64x8> all;
  Range range{fill(__builtin_inff()), fill(-__builtin_inff())};
  Rest rest;
  for (std::size_t begin = 0; begin < columns.padded; begin += kBlockColumns) {
    const std::size_t end = begin + kBlockColumns < columns.padded ? begin + kBlockColumns : columns.padded;
    NarrowSums<F> sums;
    const std::size_t whole = end <= columns.count ? end : end - kWidth;
    for (std::size_t i = begin; i < whole; i += kWidth) {
      add_vector<Dtype, Exact, Level, false>(columns, i, frame, e, d, sums, range);
    }
    if (whole < end) add_vector<Dtype, Exact, Level, true>(columns, whole, frame, e, d, sums, range);
    if (found.top >= begin && found.top < end) {
      rest = rest_of<Level>(e, d, begin, end, found.top);
    } else {
      all.l += widen_sums(sums.l), all.l_q += widen_sums(sums.l_q);
    }
    all.s += widen_sums(sums.s), all.g += widen_sums(sums.g);
    all.a_p += widen_sums(sums.a_p), all.a_q += widen_sums(sums.a_q);
    all.d1 += widen_sums(sums.d1), all.d2 += widen_sums(sums.d2);
  }
  out.n = static_cast<double>(columns.count);
  const double d1 = total(all.d1), centred = total(all.d2) - d1 * d1 / out.n;
  out.m2 = centred > 0 ? centred : 0;
  if (d1 * d1 / out.n > kWellCentred * out.m2) return false;
  out.mean_drift = tile.pivot + d1 / out.n;
  tile.min_drift = out.min_drift = tile.pivot + static_cast<double>(smallest(range.low));
  tile.max_drift = out.max_drift = tile.pivot + static_cast<double>(largest(range.high));
  // Over e^{z − top_z}, where the column `top` is exactly 1.
  out.l_p = 1 + scale * (rest.p + total(all.l));
  out.s = scale * total(all.s), out.g = scale * total(all.g), out.a_p = scale * total(all.a_p);
  // Σe^{y−m_q}(e^{d'} − 1) = Σe^{z−m_p} − Σe^{y−m_q} = S − G. Merging and the offset need T + H only.
  out.t = out.s - out.g, out.h = 0, out.a_q = scale * total(all.a_q);
  out.l_q = Level == kAnyLevel ? 1 + scale * (rest.q + total(all.l_q)) : out.l_p - out.t;
  return true;
}

template <std::uint32_t Dtype, bool Exact>
bool sum_by_level(const Columns& columns, const Scan& found, const Frame& frame, double scale, double size,
                  Tile& tile, Pass1& out) {
  if (size <= kLevels[0]) return sum_tile<Dtype, Exact, 0>(columns, found, frame, scale, tile, out);
  if (size <= kLevels[1]) return sum_tile<Dtype, Exact, 1>(columns, found, frame, scale, tile, out);
  if (size <= kSeriesDrift) return sum_tile<Dtype, Exact, 2>(columns, found, frame, scale, tile, out);
  return sum_tile<Dtype, Exact, kAnyLevel>(columns, found, frame, scale, tile, out);
}

}  // namespace

}  // namespace driftgate::gpu::cpu

#include "gpu/cpu/narrow_terms.inl"

#include "gpu/cpu/far_kernel.inl"

#include "gpu/cpu/coarse_kernel.inl"

namespace driftgate::gpu::cpu {

namespace {

/// The largest |z − y − pivot|, up to rounding.
double reach_about(const Scan& found, double pivot) {
  const double above = static_cast<double>(found.max_drift) - pivot;
  const double below = pivot - static_cast<double>(found.min_drift);
  return above > below ? above : below;
}

bool within_limit(float logit) {
  const auto wide = static_cast<double>(logit);
  return wide < kLargestLogit && wide > -kLargestLogit;
}

template <std::uint32_t Dtype>
bool sum_narrow(const Columns& columns, Scan& found, Tile& tile, Pass1& out) {
  const auto top_z = static_cast<double>(found.top_z), top_y = static_cast<double>(found.top_y);
  found.top = first_of<Dtype>(columns.train, {found.max_z, kScanColumns, kWidth}, found.top_z);
  const std::size_t vector = found.top / kWidth * kWidth;
  const float top_other = load_logits<Dtype>(columns.inf, vector)[found.top - vector];
  tile.pivot = top_z - static_cast<double>(top_other);
  double size = reach_about(found, tile.pivot);
  const bool far = size > kLargestDrift;
  if (far) tile.pivot = top_z - top_y, size = reach_about(found, tile.pivot);
  if (!(size <= kFarthest)) return false;
  const Weight of_z(found.top_z);
  const auto pivot = static_cast<float>(tile.pivot);
  const auto pivot_low = static_cast<float>(tile.pivot - static_cast<double>(pivot));
  const Frame frame{fill(pivot), fill(pivot_low), of_z.magic, of_z.top};
  out.c = tile.pivot, out.m_p = top_z, out.m_q = top_z - out.c;
  tile.m_p = of_z.reference;
  tile.top_inf = found.top_y;
  tile.count = columns.count;
  // Differences of 16-bit logits are exact in float32, unless a constant many times their size lies between
  // the kernels.
  const bool exact = Dtype == DRIFTGATE_F32 || pivot > 1.0F || pivot < -1.0F || pivot_low != 0.0F;
  if (far) {
    const std::size_t top_q = first_of<Dtype>(columns.inf, {found.max_y, kScanColumns, kWidth}, found.top_y);
    return exact ? far_tile<Dtype, true>(columns, found, top_q, frame, tile, out)
                 : far_tile<Dtype, false>(columns, found, top_q, frame, tile, out);
  }
  return exact ? sum_by_level<Dtype, true>(columns, found, frame, of_z.scale, size, tile, out)
               : sum_by_level<Dtype, false>(columns, found, frame, of_z.scale, size, tile, out);
}

/// Returns false when the tile needs the float64 form; then only scratch was written.
template <std::uint32_t Dtype>
bool narrow_tile(const TileInput& input, Tile& tile, TopList& top_train, TopList& top_inf, Pass1& out) {
  Padding padding;
  Scan found;
  const Columns columns = whole_vectors(input, padding);
  scan<Dtype>(columns, found);
  if (!found.finite || !within_limit(found.top_z) || !within_limit(found.top_y)) return false;
  if (!sum_narrow<Dtype>(columns, found, tile, out)) return false;
  offer_top<Dtype>(top_train, columns.train, found.max_z, columns, found.top_z, input.first_id);
  offer_top<Dtype>(top_inf, columns.inf, found.max_y, columns, found.top_y, input.first_id);
  return true;
}

std::uint64_t narrow_pass1(const TileInput& input, Tile& tile, TopList& top_train, TopList& top_inf,
                           Pass1& out) {
  tile.narrow = false;
  const bool allowed = tile.narrow_e != nullptr && input.columns >= kLeastColumns;
  if (allowed && input.temperature == 1.0 && input.train_dtype == input.inf_dtype) {
    tile.input = input;
    const auto form = input.train_dtype == DRIFTGATE_F32    ? narrow_tile<DRIFTGATE_F32>
                      : input.train_dtype == DRIFTGATE_BF16 ? narrow_tile<DRIFTGATE_BF16>
                                                            : narrow_tile<DRIFTGATE_F16>;
    tile.narrow = form(input, tile, top_train, top_inf, out);
    if (tile.narrow) return 0;
  }
  return pass1(input, tile, top_train, top_inf, out);
}

/// Measures again in float64 a tile that took the float32 form in pass 1.
void widen_pass2(const Tile& narrow, double c, double offset, double lse, Pass2& out) {
  Tile tile = narrow;
  TopEntry ignored[2];
  TopList none_train{&ignored[0], 1, 0}, none_inf{&ignored[1], 1, 0};
  Pass1 sums;
  pass1(narrow.input, tile, none_train, none_inf, sums);
  pass2(tile, c, offset, lse, out);
}

void narrow_pass2(const Tile& tile, double c, double offset, double lse, Pass2& out) {
  if (!tile.narrow) return pass2(tile, c, offset, lse, out);
  const double above = (tile.max_drift - c) + offset;
  const double below = -((tile.min_drift - c) + offset);
  const double size = above > below ? above : below;
  if (!(size <= 2 * kFarthest)) return widen_pass2(tile, c, offset, lse, out);
  const double exact = (tile.pivot - c) + offset;
  const auto high = static_cast<float>(exact);
  const Shift shift{high, static_cast<float>(exact - static_cast<double>(high))};
  const double scale = exp8(splat(tile.m_p - lse))[0];
  if (size <= kLevels[0]) {
    narrow_terms<0>(tile, shift, scale, out);
  } else if (size <= kLevels[1]) {
    narrow_terms<1>(tile, shift, scale, out);
  } else if (size <= kSeriesRatio) {
    narrow_terms<2>(tile, shift, scale, out);
  } else if (!tile.coarse && size <= static_cast<double>(kJsNear)) {
    narrow_terms<kAnyLevel>(tile, shift, scale, out);
  } else if (!tile.coarse && size <= kLargestRatio) {
    narrow_terms<kAnyLevel + 1>(tile, shift, scale, out);
  } else {
    const auto form = tile.input.train_dtype == DRIFTGATE_F32    ? large_pass2<DRIFTGATE_F32>
                      : tile.input.train_dtype == DRIFTGATE_BF16 ? large_pass2<DRIFTGATE_BF16>
                                                                 : large_pass2<DRIFTGATE_F16>;
    form(tile, c, offset, lse, shift, size, out);
  }
}

template <std::uint32_t Dtype>
void widen_as(const unsigned char* logits, std::size_t columns, float* out) {
  const std::size_t whole = columns / kWidth * kWidth, rest = columns - whole;
  for (std::size_t i = 0; i < whole; i += kWidth) store(out + i, load_logits<Dtype>(logits, i));
  unsigned char last[2 * kWidth] = {};
  alignas(64) float wide[kWidth];
  std::memcpy(last, logits + 2 * whole, 2 * rest);
  store(wide, load_logits<Dtype>(last, 0));
  std::memcpy(out + whole, wide, rest * sizeof(float));
}

void widen(const unsigned char* logits, std::uint32_t dtype, std::size_t columns, float* out) {
  const auto form = dtype == DRIFTGATE_BF16 ? widen_as<DRIFTGATE_BF16> : widen_as<DRIFTGATE_F16>;
  form(logits, columns, out);
}

}  // namespace

extern const TileKernel DRIFTGATE_NARROW_KERNEL;
const TileKernel DRIFTGATE_NARROW_KERNEL = {DRIFTGATE_KERNEL_NAME " float32", narrow_pass1, pass1_drift,
                                            narrow_pass2, widen};

}  // namespace driftgate::gpu::cpu
