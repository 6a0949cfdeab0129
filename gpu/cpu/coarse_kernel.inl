// Pass 2 of the float32 tile kernels for rows whose drifts are so large that every term can be computed from
// p, q and d alone: about half the work of far_kernel.inl, after which it is included. See gpu/cpu/README.md,
// "Tiles in float32".
//
// Every sum here has an error of about 1e-7 of the whole mass, from the exponentials and from products that
// are rounded once: in js 8e-8 at worst, if all errors have the same sign. The caller must judge whether that
// is accurate enough for each figure (coarse_holds in row_engine.cpp). Because Σ(q − p) is added, an error of
// the offset changes KL only to second order.

namespace driftgate::gpu::cpu {

namespace {

constexpr float kCoarseReach = 40.0F;  // |d| beyond which √(pq) is nothing, and p²/q summed apart

template <typename V>
struct CoarseSums {
  V p_d{}, q_d{}, gain{}, distance{}, both{}, root{}, shared{}, chi{}, big{};
};

/// log(1 + r) for r in [0, 1], relative error 3e-8.
DRIFTGATE_INLINE F log1p_of(F r) {
  constexpr float kTerms[] = {0.99999997F,   -0.499994931F, 0.333190968F,   -0.248429823F, 0.19106007F,
                              -0.136632462F, 0.0782259561F, -0.0295052413F, 0.00523269487F};
  return r * two_chains(r, kTerms);
}

/// `FromY`: q comes from its own logit, else from p and d.
template <std::uint32_t Dtype, bool FromY, bool Big>
struct CoarseTile {
  const Tile& tile;
  const Columns& columns;
  const FarRow& row;
  const Weight of_y;

  template <bool Last>
  DRIFTGATE_INLINE void add(std::size_t i, CoarseSums<F>& sums, NarrowHead& wide, NarrowHead& close) const {
    const F p = load(tile.narrow_e + i) * row.scale_p;
    const F d = (load(tile.narrow_drift + i) + row.shift.high) + row.shift.low;
    const F size = absolute(d);
    const F root = exp_scaled(larger(size * -0.5F, fill(-0.5F * kCoarseReach)), fill(0x1.8p23F));
    const F r = root * root, back = reciprocal(r);
    const Lanes less = above(d, F{});  // q < p
    F q;
    if constexpr (FromY) {
      q = of_y(load_logits<Dtype>(columns.inf, i)) * row.scale_q;
      if constexpr (Last) q = only(real_lanes(columns, i), q);
    } else {
      q = p * where(less, r, back);
    }
    const F gain = q - p, both = p + q;
    sums.p_d += p * d, sums.q_d += q * d;
    sums.gain += gain, sums.distance += absolute(gain), sums.both += both;
    sums.root += larger(p, q) * root;
    sums.shared += fused(smaller(p, q), size, both * log1p_of(r));
    const F square = p * where(less, back, r);  // p²/q
    if constexpr (Big) {
      const Lanes far = above(d, fill(kJsFar));
      sums.chi += where(far, F{}, square);
      sums.big += only(far, p * exp_scaled(larger(d - row.reach, fill(-kRatioReach)), row.magic));
    } else {
      sums.chi += square;
    }
    wide.add(p, q, d);
    close.add(p, q, d);
  }
};

template <std::uint32_t Dtype, bool FromY, bool Big>
void coarse_terms(const Tile& tile, const FarRow& row, double unit, Pass2& out) {
  Padding padding;
  const Columns columns = whole_vectors(tile.input, padding);
  const CoarseTile<Dtype, FromY, Big> form{tile, columns, row, Weight(tile.top_inf)};
  CoarseSums<f64x8> all;
  NarrowHead wide(out.heads[0], 1), close(out.heads[1], 1);
  for (std::size_t begin = 0; begin < columns.padded; begin += kBlockColumns) {
    const std::size_t end = begin + kBlockColumns < columns.padded ? begin + kBlockColumns : columns.padded;
    const std::size_t whole = end <= columns.count ? end : end - kWidth;
    CoarseSums<F> sums;
    for (std::size_t i = begin; i < whole; i += kWidth) form.template add<false>(i, sums, wide, close);
    if (whole < end) form.template add<true>(whole, sums, wide, close);
    all.p_d += widen_sums(sums.p_d), all.q_d += widen_sums(sums.q_d);
    all.gain += widen_sums(sums.gain), all.distance += widen_sums(sums.distance);
    all.both += widen_sums(sums.both), all.root += widen_sums(sums.root);
    all.shared += widen_sums(sums.shared), all.chi += widen_sums(sums.chi);
    if constexpr (Big) all.big += widen_sums(sums.big);
    wide.end_block();
    close.end_block();
  }
  constexpr double kLn2 = 0.6931471805599453;
  const double gain = total(all.gain), both = total(all.both);
  out.kl_train_inf += total(all.p_d) + gain, out.kl_inf_train -= total(all.q_d) + gain;
  out.tv += 0.5 * total(all.distance), out.balance += gain;
  out.hellinger2 += 0.5 * both - total(all.root);
  out.js += 0.5 * (kLn2 * both - total(all.shared));
  out.chi2 += total(all.chi) + gain - 0.5 * (both - gain);
  if constexpr (Big) out.chi2 += total(all.big) * unit;
  out.coarse = true;
  wide.add_to(out.heads[0], 1);
  close.add_to(out.heads[1], 1);
}

/// Adds a tile with |d| up to `size`, beyond the reach of the series.
template <std::uint32_t Dtype>
void large_pass2(const Tile& tile, double c, double offset, double lse, const Shift& shift, double size,
                 Pass2& out) {
  const float most = static_cast<float>((tile.max_drift - c) + offset);
  const Weight of_y(tile.top_inf);
  const double lse_q = (lse - c) + offset;
  const auto probability = [](double log) { return static_cast<float>(exp8(splat(log))[0]); };
  const FarRow row{shift, probability(tile.m_p - lse), probability(of_y.reference - lse_q), fill(most),
                   fill(0x1.8p23F + kLift)};
  constexpr double kLn2 = 0.6931471805599453;
  const double unit = exp8(splat(static_cast<double>(most) - static_cast<double>(kLift) * kLn2))[0];
  if (!tile.coarse) {
    return most > kRatioReach ? far_terms<Dtype, true>(tile, row, unit, out)
                              : far_terms<Dtype, false>(tile, row, unit, out);
  }
  if (size <= kLargestRatio) return coarse_terms<Dtype, false, false>(tile, row, unit, out);
  return most > kCoarseReach ? coarse_terms<Dtype, true, true>(tile, row, unit, out)
                             : coarse_terms<Dtype, true, false>(tile, row, unit, out);
}

}  // namespace

}  // namespace driftgate::gpu::cpu
