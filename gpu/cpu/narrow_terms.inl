// Pass 2 of the float32 tile kernels: the terms of each column. Included by narrow_kernel.inl. See
// docs/design/measurement.md, "Pass 2: sums of non-negative terms".

namespace driftgate::gpu::cpu {

namespace {

/// The columns with p > least_p, in the units of e, which the caller scales.
struct NarrowHead {
  F least_p, low, high, tail_p{}, tail_q{};
  f64x8 all_p{}, all_q{};
  DRIFTGATE_INLINE NarrowHead(const HeadSums& from, double scale)
      : least_p(fill(static_cast<float>(from.least_p / scale))),
        low(fill(__builtin_inff())),
        high(fill(-__builtin_inff())) {}
  DRIFTGATE_INLINE void add(F p, F q, F d) {
    const Lanes inside = above(p, least_p);
    low = smaller_in(inside, low, d);
    high = larger_in(inside, high, d);
    tail_p = add_outside(p, least_p, tail_p, p);
    tail_q = add_outside(p, least_p, tail_q, q);
  }
  DRIFTGATE_INLINE void end_block() {
    all_p += widen_sums(tail_p), all_q += widen_sums(tail_q);
    tail_p = tail_q = F{};
  }
  DRIFTGATE_INLINE void add_to(HeadSums& out, double scale) const {
    const auto least = static_cast<double>(smallest(low)), most = static_cast<double>(largest(high));
    out.min_d = least < out.min_d ? least : out.min_d;
    out.max_d = most > out.max_d ? most : out.max_d;
    out.tail_p += scale * total(all_p);
    out.tail_q += scale * total(all_q);
  }
};

template <typename V>
struct NarrowTerms {
  V kl_pq{}, kl_qp{}, tv{}, js{}, hellinger{}, chi{}, balance{};
};

template <int Level>
DRIFTGATE_INLINE F add_terms(F p, F d, NarrowTerms<F>& sums) {
  using Terms = Series<Level>;
  const F d2 = d * d;
  const F even = d2 * horner(d2, Terms::even), odd = d2 * d * horner(d2, Terms::odd);
  const F minus = even - odd, plus = even + odd;
  const F ratio = minus - d;  // q/p − 1
  const F change = p * ratio, q = p + change;
  const F both = (p + q) * d2;
  sums.kl_pq += p * minus;
  sums.kl_qp += q * plus;
  sums.tv += absolute(change);
  sums.balance += change;
  sums.js += both * horner(d2, Terms::js);
  sums.hellinger += both * horner(d2, Terms::hellinger);
  sums.chi += change * ratio * (plus + (d + 1.0F));
  return q;
}

/// Terms for any |d| ≤ kLargestRatio (`Near`: ≤ kJsNear), from h = e^{−d/2} − 1. All but two are products, or
/// sums of numbers of one sign. h² + 2h loses little accuracy while |h| is small, and nothing that matters
/// compared with 1 when h is near −1. φ(d)·q/p = d² − (1 + d)·φ(−d) loses half of its accuracy for small d,
/// so that it is formed as 1 − q/p − d·q/p beyond d = 1.
template <bool Near>
DRIFTGATE_INLINE F add_any_terms(F p, F d, F low, NarrowTerms<F>& sums) {
  const Ratio half = ratio_of(d * -0.5F, low * -0.5F);
  const F h2 = half.growth * half.growth, d2 = d * d;
  const F minus = fused(fill(2.0F), half.phi, h2);     // φ(−d)
  const F ratio = fused(fill(2.0F), half.growth, h2);  // q/p − 1
  const F w = half.power * half.power, back = reciprocal(w);
  const F change = p * ratio, q = p * w;
  const F close = d2 - fused(minus, d, minus), apart = -fused(w, d, ratio);
  sums.kl_pq += p * minus;
  sums.kl_qp += p * where(above(d, fill(1.0F)), apart, close);
  sums.tv += absolute(change);
  sums.balance += change;
  sums.hellinger += p * h2;
  sums.chi += change * (ratio * back);
  const F both = p + q;
  if constexpr (Near) {
    sums.js += both * js_near(d2);
  } else {
    const F size = absolute(d);
    const F middle = both * js_middle(smaller(d2, fill(kJsFar * kJsFar)));
    const F far = js_far(both, smaller(p, q), smaller(w, back), size);
    sums.js += where(above(size, fill(kJsFar)), far, middle);
  }
  return q;
}

DRIFTGATE_INLINE void add_block(NarrowTerms<f64x8>& all, const NarrowTerms<F>& sums) {
  all.kl_pq += widen_sums(sums.kl_pq), all.kl_qp += widen_sums(sums.kl_qp);
  all.tv += widen_sums(sums.tv), all.js += widen_sums(sums.js);
  all.hellinger += widen_sums(sums.hellinger), all.chi += widen_sums(sums.chi);
  all.balance += widen_sums(sums.balance);
}
DRIFTGATE_INLINE void add_terms_to(Pass2& out, const NarrowTerms<f64x8>& all, double scale) {
  out.kl_train_inf += scale * total(all.kl_pq), out.kl_inf_train += scale * total(all.kl_qp);
  out.tv += 0.5 * scale * total(all.tv), out.js += 0.5 * scale * total(all.js);
  out.hellinger2 += 0.5 * scale * total(all.hellinger), out.chi2 += scale * total(all.chi);
  out.balance += scale * total(all.balance);
}

/// The number that is added to each d', in two parts: where it nearly cancels d', its own rounding error
/// would be all of d.
struct Shift {
  float high, low;
};

template <int Level>
void narrow_terms(const Tile& tile, const Shift shift, double scale, Pass2& out) {
  NarrowTerms<f64x8> all;
  NarrowHead wide(out.heads[0], scale), close(out.heads[1], scale);
  const std::size_t padded = (tile.count + kWidth - 1) / kWidth * kWidth;
  for (std::size_t begin = 0; begin < padded; begin += kBlockColumns) {
    const std::size_t end = begin + kBlockColumns < padded ? begin + kBlockColumns : padded;
    NarrowTerms<F> sums;
    for (std::size_t i = begin; i < end; i += kWidth) {
      const F p = load(tile.narrow_e + i), kept = load(tile.narrow_drift + i);
      const F d = (kept + shift.high) + shift.low;
      F q;
      if constexpr (Level < kAnyLevel) {
        q = add_terms<Level>(p, d, sums);
      } else {
        q = add_any_terms<Level == kAnyLevel>(p, d, (shift.high - (d - kept)) + shift.low, sums);
      }
      wide.add(p, q, d);
      close.add(p, q, d);
    }
    add_block(all, sums);
    wide.end_block();
    close.end_block();
  }
  add_terms_to(out, all, scale);
  wide.add_to(out.heads[0], scale);
  close.add_to(out.heads[1], scale);
}

}  // namespace

}  // namespace driftgate::gpu::cpu
