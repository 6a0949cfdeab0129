// The float32 form for tiles with drifts of more than kLargestDrift: two exponentials for each pair of
// logits. Included by narrow_kernel.inl, whose functions it uses. See gpu/cpu/README.md, "Tiles in float32".
//
// As a float, a d' of 20 nats has an error of 1e-6, and so would e^−d'. Here both e^z and e^y are computed
// from their own logits, to 1e-7, and where |d| > kJsFar every term is a sum of p, q, p·d and q·d, of which
// the largest is at most twice the whole. Elsewhere terms are formed as in the other kernels. That requires
// an accurate d, so that the pivot is the difference of the largest z and the largest y, with which d' is
// close to d. Raising a small p to the floor changes only p²/q, and only where drifts are larger than
// kFlooredDrift: such a tile is rejected.

namespace driftgate::gpu::cpu {

namespace {

constexpr double kFarthest = 1'000.0;   // |d'|: more than logits differ by
constexpr float kRatioReach = 80.0F;    // |d| whose e^d and e^−d are both normal
constexpr double kFlooredDrift = 40.0;  // span of the drifts

/// The exponential of one kernel: e^x in units of e^−reference, not less than e^kFloor below the top.
struct Weight {
  F magic, top;
  double reference, scale;  ///< scale: of units into e^{x − top}
  explicit Weight(float largest) {
    constexpr double kLog2e = 1.4426950408889634, kLn2 = 0.6931471805599453, kMagic = 0x1.8p23;
    const auto wide = static_cast<double>(largest);
    const auto k = static_cast<double>(static_cast<std::int64_t>(wide * kLog2e));
    magic = fill(static_cast<float>(kMagic - k)), top = fill(largest);
    reference = k * kLn2;
    scale = exp8(splat(reference - wide))[0];
  }
  DRIFTGATE_INLINE F floored(F x) const { return larger(x, top + kFloor); }
  DRIFTGATE_INLINE F operator()(F x) const { return exp_scaled(floored(x), magic); }
};

template <typename V>
struct FarSums {
  V l_p{}, l_q{}, s{}, a_p{}, a_q{}, d1{}, d2{};
};

/// Whether a vector is the last one, which may end in repeated columns: a compile-time constant.
template <bool Value>
struct Constant {
  constexpr operator bool() const { return Value; }
};
constexpr Constant<false> kNotLast;
constexpr Constant<true> kLast;

/// Lanes of the vector at `i` that are columns of the tile.
DRIFTGATE_INLINE Lanes real_lanes(const Columns& columns, std::size_t i) {
  const std::size_t here = columns.count - i;
  return lanes(here < kWidth ? (1U << here) - 1 : (1U << (kWidth - 1)) * 2 - 1);
}

/// Σe^{x − top} of a block in float64, without the column `top`.
template <std::uint32_t Dtype>
double far_rest(const unsigned char* logits, const Columns& columns, const Weight& weight, std::size_t begin,
                std::size_t end, std::size_t top) {
  f64x8 sum{};
  for (std::size_t i = begin; i < end; i += kWidth) {
    F e = only(real_lanes(columns, i), weight(load_logits<Dtype>(logits, i)));
    if (top >= i && top < i + kWidth) e[top - i] = 0;
    sum += widen_sums(e);
  }
  return total(sum);
}

template <std::uint32_t Dtype, bool Exact>
bool far_tile(const Columns columns, const Scan& found, std::size_t top_q, const Frame& frame, Tile& tile,
              Pass1& out) {
  float* const e_out = tile.narrow_e;
  float* const d_out = tile.narrow_drift;
  const Weight of_z(found.top_z), of_y(found.top_y);
  FarSums<f64x8> all;
  double rest_p = 0, rest_q = 0;
  F least = fill(__builtin_inff()), low = least, high = -least;
  for (std::size_t begin = 0; begin < columns.padded; begin += kBlockColumns) {
    const std::size_t end = begin + kBlockColumns < columns.padded ? begin + kBlockColumns : columns.padded;
    FarSums<F> sums;
    const auto add = [&](std::size_t i, auto last) __attribute__((always_inline)) {
      constexpr std::size_t kBytes = Dtype == DRIFTGATE_F32 ? 4 : 2;
      __builtin_prefetch(columns.train + (i + kPrefetchColumns) * kBytes);
      __builtin_prefetch(columns.inf + (i + kPrefetchColumns) * kBytes);
      const F z = load_logits<Dtype>(columns.train, i), y = load_logits<Dtype>(columns.inf, i);
      F d = drift_of<Exact>(z, y, frame), e = of_z(z), f = of_y(y);
      if constexpr (last) {
        const Lanes real = real_lanes(columns, i);
        d = only(real, d), e = only(real, e), f = only(real, f);
      }
      least = smaller(least, z);
      low = smaller(low, d), high = larger(high, d);
      store(e_out + i, e);
      store(d_out + i, d);
      sums.l_p += e, sums.l_q += f;
      sums.s += e * d;
      sums.a_p += e * (of_z.floored(z) - of_z.top), sums.a_q += f * (of_y.floored(y) - of_y.top);
      sums.d1 += d, sums.d2 += d * d;
    };
    const std::size_t whole = end <= columns.count ? end : end - kWidth;
    for (std::size_t i = begin; i < whole; i += kWidth) add(i, kNotLast);
    if (whole < end) add(whole, kLast);
    const bool has_p = found.top >= begin && found.top < end, has_q = top_q >= begin && top_q < end;
    if (has_p) rest_p = far_rest<Dtype>(columns.train, columns, of_z, begin, end, found.top);
    if (has_q) rest_q = far_rest<Dtype>(columns.inf, columns, of_y, begin, end, top_q);
    all.l_p += has_p ? f64x8{} : widen_sums(sums.l_p);
    all.l_q += has_q ? f64x8{} : widen_sums(sums.l_q);
    all.s += widen_sums(sums.s), all.a_p += widen_sums(sums.a_p), all.a_q += widen_sums(sums.a_q);
    all.d1 += widen_sums(sums.d1), all.d2 += widen_sums(sums.d2);
  }
  const double most = static_cast<double>(largest(high)), lowest = static_cast<double>(smallest(low));
  const double depth = static_cast<double>(smallest(least)) - static_cast<double>(found.top_z);
  if (most - lowest > kFlooredDrift && depth < static_cast<double>(kFloor)) return false;
  out.n = static_cast<double>(columns.count);
  const double d1 = total(all.d1), centred = total(all.d2) - d1 * d1 / out.n;
  out.m2 = centred > 0 ? centred : 0;
  if (d1 * d1 / out.n > kWellCentred * out.m2) return false;
  out.mean_drift = tile.pivot + d1 / out.n;
  tile.min_drift = out.min_drift = tile.pivot + lowest;
  tile.max_drift = out.max_drift = tile.pivot + most;
  out.l_p = 1 + of_z.scale * (rest_p + total(all.l_p)), out.a_p = of_z.scale * total(all.a_p);
  out.l_q = 1 + of_y.scale * (rest_q + total(all.l_q)), out.a_q = of_y.scale * total(all.a_q);
  out.m_q = static_cast<double>(found.top_y);
  out.s = of_z.scale * total(all.s);
  // With c = m_p − m_q, Σe^{z−m_p}(e^−d' − 1) is l_q − l_p. Merging and the offset need T + H only.
  out.g = out.l_q - out.l_p + out.s, out.t = out.l_p - out.l_q, out.h = 0;
  return true;
}

constexpr float kLift = 100.0F;  // powers of two by which p·e^{d − reach} is raised: no subnormal product

/// What pass 2 needs of the row.
struct FarRow {
  Shift shift;
  float scale_p, scale_q;  ///< of units into p and q
  F reach, magic;          ///< of e^{d − reach}, which a sum of p²/q may need
};

/// `Big`: d exceeds the range of e^d as a float. Its sum is kept separately, in units of e^reach, raised by
/// kLift.
template <bool Big>
DRIFTGATE_INLINE void add_far_terms(F p, F q, F d, F low, const FarRow& row, NarrowTerms<F>& sums, F& big) {
  const F inside = smaller(larger(d, fill(-kRatioReach)), fill(kRatioReach)), size = absolute(d);
  const Ratio half = ratio_of(inside * -0.5F, low * -0.5F);
  const F h2 = half.growth * half.growth, d2 = d * d;
  const F minus = fused(fill(2.0F), half.phi, h2), ratio = fused(fill(2.0F), half.growth, h2);
  const F w = half.power * half.power, back = reciprocal(w);
  const F close = d2 - fused(minus, d, minus), apart = -fused(w, d, ratio);
  const Lanes far = above(size, fill(kJsFar));
  const F gain = q - p, both = p + q, lesser = smaller(p, q);
  const F change = where(far, gain, p * ratio);
  sums.kl_pq += where(far, fused(p, d, gain), p * minus);
  sums.kl_qp += where(far, -fused(q, d, gain), p * where(above(d, fill(1.0F)), apart, close));
  sums.tv += absolute(change);
  sums.balance += change;
  // √(pq) of the larger and √(lesser/larger).
  const F root = smaller(half.power, back * half.power);
  sums.hellinger += where(far, fused(larger(p, q) * root, fill(-2.0F), both), p * h2);
  const F middle = both * js_middle(smaller(d2, fill(kJsFar * kJsFar)));
  sums.js += where(far, js_far(both, lesser, smaller(w, back), size), middle);
  // (p − q)²/q = (q − p) − p + p·e^d.
  if constexpr (Big) {
    const F grown = exp_scaled(larger(d - row.reach, fill(-kRatioReach)), row.magic);
    big += only(above(d, fill(kJsFar)), p * grown);
    sums.chi += where(far, gain - p, change * (ratio * back));
  } else {
    sums.chi += where(far, fused(p, back, gain - p), change * (ratio * back));
  }
}

/// `unit`: e^reach less kLift.
template <std::uint32_t Dtype, bool Big>
void far_terms(const Tile& tile, const FarRow& row, double unit, Pass2& out) {
  Padding padding;
  const Columns columns = whole_vectors(tile.input, padding);
  const Weight of_y(tile.top_inf);
  NarrowTerms<f64x8> all;
  f64x8 big_all{};
  NarrowHead wide(out.heads[0], 1), close(out.heads[1], 1);
  for (std::size_t begin = 0; begin < columns.padded; begin += kBlockColumns) {
    const std::size_t end = begin + kBlockColumns < columns.padded ? begin + kBlockColumns : columns.padded;
    NarrowTerms<F> sums;
    F big{};
    const auto add = [&](std::size_t i, auto last) __attribute__((always_inline)) {
      const F kept = load(tile.narrow_drift + i), p = load(tile.narrow_e + i) * row.scale_p;
      F q = of_y(load_logits<Dtype>(columns.inf, i)) * row.scale_q;
      if constexpr (last) q = only(real_lanes(columns, i), q);
      const F d = (kept + row.shift.high) + row.shift.low;
      const F low = (row.shift.high - (d - kept)) + row.shift.low;
      add_far_terms<Big>(p, q, d, low, row, sums, big);
      wide.add(p, q, d);
      close.add(p, q, d);
    };
    const std::size_t whole = end <= columns.count ? end : end - kWidth;
    for (std::size_t i = begin; i < whole; i += kWidth) add(i, kNotLast);
    if (whole < end) add(whole, kLast);
    add_block(all, sums);
    big_all += widen_sums(big);
    wide.end_block();
    close.end_block();
  }
  add_terms_to(out, all, 1);
  if constexpr (Big) out.chi2 += total(big_all) * unit;
  wide.add_to(out.heads[0], 1);
  close.add_to(out.heads[1], 1);
}

}  // namespace

}  // namespace driftgate::gpu::cpu
