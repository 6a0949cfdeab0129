// The tile kernel of one instruction set. The including file defines DRIFTGATE_KERNEL (the table's
// identifier) and DRIFTGATE_KERNEL_NAME. Only built-in operations are used: an inline function of the
// standard library, compiled here for a newer instruction set, could be the copy that the linker keeps. See
// docs/design/measurement.md, "The divergences in floating point".

#include "gpu/backend/backend.h"
#include "gpu/cpu/tile_kernel.hpp"
#include "gpu/cpu/vector_math.inl"

namespace driftgate::gpu::cpu {

namespace {

constexpr double kInfinity = __builtin_inf();
constexpr double kPadding = -1e300;  // as a logit: probability 0 in every row, no NaN in any product

DRIFTGATE_INLINE std::size_t element_bytes(std::uint32_t dtype) {
  return dtype == DRIFTGATE_F32 ? 4 : 2;
}

DRIFTGATE_INLINE f64x8 load_logits(const unsigned char* from, std::uint32_t dtype) {
  if (dtype == DRIFTGATE_F32) {
    f32x8 raw;
    std::memcpy(&raw, from, sizeof(raw));
    return widen_floats(raw);
  }
  u16x8 raw;
  std::memcpy(&raw, from, sizeof(raw));
  return dtype == DRIFTGATE_BF16 ? widen_bf16(raw) : widen(raw);
}

/// Widens a tile's logits into `out`, padded to whole vectors with kPadding. True if all are finite.
bool widen_tile(const unsigned char* from, std::uint32_t dtype, std::size_t columns, double* out) {
  const std::size_t bytes = element_bytes(dtype);
  const std::size_t whole = columns / kLanes * kLanes;
  f64x8 suspicion{};  // accumulates 0·x, which is NaN for every x that is not finite
  for (std::size_t i = 0; i < whole; i += kLanes) {
    const f64x8 v = load_logits(from + i * bytes, dtype);
    suspicion += v * 0.0;
    store(out + i, v);
  }
  if (whole < columns) {
    unsigned char last[32] = {};
    std::memcpy(last, from + whole * bytes, (columns - whole) * bytes);
    const f64x8 v = load_logits(last, dtype);
    suspicion += v * 0.0;
    store(out + whole, v);
    for (std::size_t i = columns; i < whole + kLanes; ++i) out[i] = kPadding;
  }
  return total(suspicion) == 0.0;
}

DRIFTGATE_INLINE void insert(TopList& list, double value, std::uint32_t id) {
  std::uint32_t at = list.size;
  if (at == list.capacity) {
    if (!(value > list.entries[at - 1].value)) return;  // of equal values the lower id, which came first, is kept
    --at;
  } else {
    ++list.size;
  }
  for (; at > 0 && value > list.entries[at - 1].value; --at) list.entries[at] = list.entries[at - 1];
  list.entries[at] = {value, id};
}

/// Offers a tile's logits to a top list; `ids` is null when columns are consecutive.
void update_top(TopList& list, const double* values, std::size_t count, std::uint32_t first_id,
                const std::uint32_t* ids) {
  constexpr std::size_t kBlock = 8 * kLanes;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = begin + kBlock < count ? begin + kBlock : count;
    if (list.size == list.capacity) {
      f64x8 top = load(values + begin);
      for (std::size_t i = begin + kLanes; i < end; i += kLanes) top = larger(top, load(values + i));
      if (!(largest(top) > list.entries[list.size - 1].value)) continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      insert(list, values[i], ids == nullptr ? first_id + static_cast<std::uint32_t>(i) : ids[i]);
    }
  }
}

/// Removes the columns that are −∞ in both kernels; counts NaN and other infinities.
std::uint64_t compact(double* z, double* y, std::uint32_t* ids, std::size_t columns, std::uint32_t first_id,
                      std::size_t& kept) {
  std::uint64_t nonfinite = 0;
  kept = 0;
  for (std::size_t i = 0; i < columns; ++i) {
    const double a = z[i];
    const double b = y[i];
    if (a == -kInfinity && b == -kInfinity) continue;
    nonfinite += static_cast<std::uint64_t>(!__builtin_isfinite(a)) +
                 static_cast<std::uint64_t>(!__builtin_isfinite(b));
    z[kept] = a;
    y[kept] = b;
    ids[kept++] = first_id + static_cast<std::uint32_t>(i);
  }
  for (std::size_t i = kept; i % kLanes != 0; ++i) z[i] = y[i] = kPadding;
  return nonfinite;
}

struct Extremes {
  double max_z, max_y, pivot, min_drift, max_drift;
};

/// Finds maxima and the pivot: the drift at the first maximum of z. Padded entries get the pivot as their
/// drift.
Extremes extremes(const double* z, const double* y, double* drift, std::size_t count) {
  const std::size_t padded = (count + kLanes - 1) / kLanes * kLanes;
  f64x8 max_z = splat(-kInfinity), max_y = max_z, max_drift = max_z, min_drift = splat(kInfinity);
  for (std::size_t i = 0; i < padded; i += kLanes) {
    max_z = larger(max_z, load(z + i));
    max_y = larger(max_y, load(y + i));
  }
  Extremes out{largest(max_z), largest(max_y), 0, 0, 0};
  std::size_t first = 0;
  while (z[first] != out.max_z) ++first;
  out.pivot = drift[first];
  for (std::size_t i = count; i < padded; ++i) drift[i] = out.pivot;
  for (std::size_t i = 0; i < padded; i += kLanes) {
    max_drift = larger(max_drift, load(drift + i));
    min_drift = smaller(min_drift, load(drift + i));
  }
  out.min_drift = smallest(min_drift);
  out.max_drift = largest(max_drift);
  return out;
}

/// Raises the logits of a tile with sentinels for masked tokens (kSentinelBound) to the bound; the extremes
/// of the drift are not changed.
void bound_logits(double* z, double* y, double* drift, std::size_t count, double bound, Extremes& found) {
  const f64x8 low = splat(-bound);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const f64x8 a = larger(load(z + i), low), b = larger(load(y + i), low);
    store(z + i, a);
    store(y + i, b);
    store(drift + i, a - b);
  }
  for (std::size_t i = count; i % kLanes != 0; ++i) z[i] = y[i] = kPadding;
  const Extremes bounded = extremes(z, y, drift, count);
  found.max_z = bounded.max_z;
  found.max_y = bounded.max_y;
  found.pivot = bounded.pivot;
}

/// Writes the drift and divides by the temperature.
Extremes prepare(double* z, double* y, double* drift, std::size_t count, double temperature) {
  const std::size_t padded = (count + kLanes - 1) / kLanes * kLanes;
  for (std::size_t i = 0; i < padded; i += kLanes) {
    f64x8 a = load(z + i), b = load(y + i), d = a - b;
    if (temperature != 1.0) {
      a /= temperature;
      b /= temperature;
      d /= temperature;
      store(z + i, a);
      store(y + i, b);
    }
    store(drift + i, d);
  }
  Extremes found = extremes(z, y, drift, count);
  const double bound = sentinel_bound(temperature);
  const bool apart = found.max_drift > bound || found.min_drift < -bound;
  if (apart && found.max_z <= bound && found.max_y <= bound) bound_logits(z, y, drift, count, bound, found);
  return found;
}

/// Tiles with |d'| ≤ 1 (`Small`: ≤ 1/16) in all columns: one exponential for each pair of logits.
template <bool Small>
void sums_near(const Tile& tile, Pass1& out) {
  f64x8 l_p{}, s{}, g{}, a_p{}, l_q{}, t{}, h{}, a_q{}, d1{}, d2{};
  for (std::size_t i = 0; i < tile.count; i += kLanes) {
    const f64x8 z = load(tile.z + i) - out.m_p;
    const f64x8 d = load(tile.drift + i) - out.c;
    const f64x8 e = exp8(z);
    const Phi phi = phi8<Small>(d);
    const f64x8 minus = phi.even - phi.odd;
    const f64x8 other = e + e * (minus - d);  // e^{y − m_q}, with m_q = m_p − c
    store(tile.e + i, e);
    l_p += e;
    s += e * d;
    g += e * minus;
    a_p += e * z;
    l_q += other;
    t += other * d;
    h += other * (phi.even + phi.odd);
    a_q += other * (z - d);
    d1 += d;
    d2 += d * d;
  }
  out.m_q = out.m_p - out.c;
  out.l_p = total(l_p), out.s = total(s), out.g = total(g), out.a_p = total(a_p);
  out.l_q = total(l_q), out.t = total(t), out.h = total(h), out.a_q = total(a_q);
  const double sum = total(d1);
  out.mean_drift = out.c + sum / out.n;
  const double centred = total(d2) - sum * sum / out.n;
  out.m2 = centred > 0 ? centred : 0;
}

/// Any drift: where |d'| > 1, φ is never formed; both exponentials enter as products instead.
void sums_far(const Tile& tile, const double* y, Pass1& out) {
  const f64x8 up = exp8(splat(out.c + out.m_q - out.m_p));  // e^{y + c − m_p} = e^{y − m_q}·up
  const f64x8 down = exp8(splat(out.m_p - out.c - out.m_q));
  f64x8 l_p{}, s{}, g{}, a_p{}, l_q{}, t{}, h{}, a_q{}, d1{}, d2{};
  for (std::size_t i = 0; i < tile.count; i += kLanes) {
    const f64x8 z = load(tile.z + i) - out.m_p;
    const f64x8 v = load(y + i) - out.m_q;
    const f64x8 d = load(tile.drift + i) - out.c;
    const f64x8 e = exp8(z);
    const f64x8 f = exp8(v);
    const Phi phi = phi8<false>(smaller(larger(d, splat(-1.0)), splat(1.0)));
    const auto near = absolute(d) <= 1.0;
    store(tile.e + i, e);
    l_p += e;
    s += e * d;
    g += select(near, e * (phi.even - phi.odd), f * up - e + e * d);
    a_p += e * z;
    l_q += f;
    t += f * d;
    h += select(near, f * (phi.even + phi.odd), e * down - f - f * d);
    a_q += f * v;
    d1 += d;
    d2 += d * d;
  }
  out.l_p = total(l_p), out.s = total(s), out.g = total(g), out.a_p = total(a_p);
  out.l_q = total(l_q), out.t = total(t), out.h = total(h), out.a_q = total(a_q);
  const double sum = total(d1);
  out.mean_drift = out.c + sum / out.n;
  const double centred = total(d2) - sum * sum / out.n;
  out.m2 = centred > 0 ? centred : 0;
}

/// Computes the sums of a tile whose extremes are known.
void sum_tile(Tile& tile, const double* y, const Extremes& found, Pass1& out) {
  tile.m_p = out.m_p = found.max_z;
  out.m_q = found.max_y;
  out.c = found.pivot;
  tile.min_drift = out.min_drift = found.min_drift;
  tile.max_drift = out.max_drift = found.max_drift;
  out.n = static_cast<double>(tile.count);
  const double above = found.max_drift - found.pivot;
  const double below = found.pivot - found.min_drift;
  const double size = above > below ? above : below;
  if (size <= 0.0625) {
    sums_near<true>(tile, out);
  } else if (size <= 1.0) {
    sums_near<false>(tile, out);
  } else {
    sums_far(tile, y, out);
  }
}

std::uint64_t pass1(const TileInput& input, Tile& tile, TopList& top_train, TopList& top_inf, Pass1& out) {
  alignas(64) double y[kTileColumns];
  std::uint32_t ids[kTileColumns];
  const bool clean_train = widen_tile(input.train, input.train_dtype, input.columns, tile.z);
  const bool clean_inf = widen_tile(input.inf, input.inf_dtype, input.columns, y);
  tile.count = input.columns;
  const bool clean = clean_train && clean_inf;
  if (!clean) {
    const std::uint64_t nonfinite = compact(tile.z, y, ids, input.columns, input.first_id, tile.count);
    if (nonfinite > 0 || tile.count == 0) return nonfinite;
  }
  update_top(top_train, tile.z, tile.count, input.first_id, clean ? nullptr : ids);
  update_top(top_inf, y, tile.count, input.first_id, clean ? nullptr : ids);

  const Extremes found = prepare(tile.z, y, tile.drift, tile.count, input.temperature);
  sum_tile(tile, y, found, out);
  return 0;
}

void pass1_drift(Tile& tile, const std::uint32_t* ids, TopList& top_train, TopList& top_inf, Pass1& out) {
  alignas(64) double y[kTileColumns];
  for (std::size_t i = tile.count; i % kLanes != 0; ++i) tile.z[i] = kPadding, tile.drift[i] = 0;
  tile.narrow = false;
  for (std::size_t i = 0; i < tile.count; i += kLanes) store(y + i, load(tile.z + i) - load(tile.drift + i));
  update_top(top_train, tile.z, tile.count, 0, ids);
  update_top(top_inf, y, tile.count, 0, ids);
  sum_tile(tile, y, extremes(tile.z, y, tile.drift, tile.count), out);
}

// With t = tanh(d/2) and m = (p + q)/2, the terms of js and hellinger2 are even in d: ½m·ψ(d), where
// ψ = (1−t)·log(1−t) + (1+t)·log(1+t), and m·(1 − sech(d/2)). Taylor coefficients in d²; both series
// converge for |d| < π, so the terms left out are below 1e-10 of the value at |d| = 1.
constexpr double kJs[] = {0.125,
                          -0.015625,
                          0.001736111111111111,
                          -0.00018446180555555555,
                          1.922123015873016e-05,
                          -1.983552873309818e-06,
                          2.0358566055490657e-07,
                          -2.082587795807817e-08,
                          2.1257329508622406e-09,
                          -2.1664872983109939e-10};
constexpr double kHellinger[] = {0.125,
                                 -0.013020833333333334,
                                 0.0013237847222222223,
                                 -0.00013418046254960319,
                                 1.359593090346671e-05,
                                 -1.3775626977616046e-06,
                                 1.3957636078886898e-07,
                                 -1.4142042959250212e-08,
                                 1.4328885416129856e-09,
                                 -1.4518196317479765e-10};
constexpr double kJsSmall[] = {kJs[0], kJs[1], kJs[2], kJs[3]};
constexpr double kHellingerSmall[] = {kHellinger[0], kHellinger[1], kHellinger[2], kHellinger[3]};

struct Head {
  f64x8 least_p, min_d, max_d, tail_p{}, tail_q{};
  DRIFTGATE_INLINE explicit Head(const HeadSums& from)
      : least_p(splat(from.least_p)), min_d(splat(from.min_d)), max_d(splat(from.max_d)) {}
  DRIFTGATE_INLINE void add(f64x8 p, f64x8 q, f64x8 d) {
    const auto inside = p > least_p;
    min_d = select(inside, smaller(min_d, d), min_d);
    max_d = select(inside, larger(max_d, d), max_d);
    tail_p += select(inside, f64x8{}, p);
    tail_q += select(inside, f64x8{}, q);
  }
  DRIFTGATE_INLINE void add_to(HeadSums& out) const {
    out.min_d = smallest(min_d);
    out.max_d = largest(max_d);
    out.tail_p += total(tail_p);
    out.tail_q += total(tail_q);
  }
};

struct Sums {
  f64x8 kl_pq{}, kl_qp{}, tv{}, js{}, hellinger{}, chi{}, balance{};
  Head wide, narrow;
  DRIFTGATE_INLINE explicit Sums(const Pass2& out) : wide(out.heads[0]), narrow(out.heads[1]) {}
  DRIFTGATE_INLINE void add_to(Pass2& out) const {
    wide.add_to(out.heads[0]);
    narrow.add_to(out.heads[1]);
    out.kl_train_inf += total(kl_pq);
    out.kl_inf_train += total(kl_qp);
    out.tv += total(tv);
    out.js += total(js);
    out.hellinger2 += total(hellinger);
    out.chi2 += total(chi);
    out.balance += total(balance);
  }
};

template <bool Small>
DRIFTGATE_INLINE void near_terms(f64x8 p, f64x8 d, f64x8 (&terms)[7]) {
  const Phi phi = phi8<Small>(d);
  const f64x8 minus = phi.even - phi.odd, plus = phi.even + phi.odd;
  const f64x8 ratio = minus - d;  // q/p − 1
  const f64x8 q = p + p * ratio;
  const f64x8 d2 = d * d;
  const f64x8 m = (p + q) * 0.5;
  terms[0] = p * minus;
  terms[1] = q * plus;
  terms[2] = p * absolute(ratio) * 0.5;
  terms[3] = m * d2 * (Small ? horner(d2, kJsSmall) : horner(d2, kJs));
  terms[4] = m * d2 * (Small ? horner(d2, kHellingerSmall) : horner(d2, kHellinger));
  terms[5] = p * ratio * ratio * (plus + d + 1.0);
  terms[6] = q;
}

DRIFTGATE_INLINE void far_terms(f64x8 p, f64x8 log_p, f64x8 d, f64x8 (&terms)[7]) {
  constexpr double kLn2 = 0.6931471805599453;
  const f64x8 q = exp8(log_p - d);
  const f64x8 size = absolute(d);
  const f64x8 root = exp8(size * -0.5);  // √(low / high)
  const f64x8 r = root * root;
  const f64x8 high = larger(p, q), low = smaller(p, q);
  const f64x8 shared = kLn2 - log1p8(smaller(r, splat(0.37)));
  terms[0] = (q - p) + p * d;
  terms[1] = (p - q) - q * d;
  terms[2] = (high - low) * 0.5;
  terms[3] = (high * shared + low * (shared - size)) * 0.5;
  terms[4] = high * (1.0 - root) * (1.0 - root) * 0.5;
  // (p − q)²/q: where p is the larger it is p·e^d·(1 − r)², whose factors can overflow one by one.
  terms[5] = select(d > 0.0, exp8(log_p + d), q) * (1.0 - r) * (1.0 - r);
  terms[6] = q;
}

template <bool Small>
void pass2_near(const Tile& tile, double c, double offset, double scale, Pass2& out) {
  Sums sums(out);
  for (std::size_t i = 0; i < tile.count; i += kLanes) {
    const f64x8 d = (load(tile.drift + i) - c) + offset;
    const f64x8 p = load(tile.e + i) * scale;
    f64x8 terms[7];
    near_terms<Small>(p, d, terms);
    sums.kl_pq += terms[0], sums.kl_qp += terms[1], sums.tv += terms[2];
    sums.js += terms[3], sums.hellinger += terms[4], sums.chi += terms[5];
    sums.balance += terms[6] - p;
    sums.wide.add(p, terms[6], d);
    sums.narrow.add(p, terms[6], d);
  }
  sums.add_to(out);
}

void pass2_far(const Tile& tile, double c, double offset, double lse, double scale, Pass2& out) {
  Sums sums(out);
  for (std::size_t i = 0; i < tile.count; i += kLanes) {
    const f64x8 d = (load(tile.drift + i) - c) + offset;
    const f64x8 p = load(tile.e + i) * scale;
    f64x8 close[7], apart[7];
    near_terms<false>(p, smaller(larger(d, splat(-1.0)), splat(1.0)), close);
    far_terms(p, load(tile.z + i) - lse, d, apart);
    const auto near = absolute(d) <= 1.0;
    sums.kl_pq += select(near, close[0], apart[0]);
    sums.kl_qp += select(near, close[1], apart[1]);
    sums.tv += select(near, close[2], apart[2]);
    sums.js += select(near, close[3], apart[3]);
    sums.hellinger += select(near, close[4], apart[4]);
    sums.chi += select(near, close[5], apart[5]);
    const f64x8 q = select(near, close[6], apart[6]);
    sums.balance += q - p;
    sums.wide.add(p, q, d);
    sums.narrow.add(p, q, d);
  }
  sums.add_to(out);
}

void pass2(const Tile& tile, double c, double offset, double lse, Pass2& out) {
  const double scale = exp8(splat(tile.m_p - lse))[0];
  const double above = (tile.max_drift - c) + offset;
  const double below = -((tile.min_drift - c) + offset);
  const double size = above > below ? above : below;
  if (size <= 0.0625) {
    pass2_near<true>(tile, c, offset, scale, out);
  } else if (size <= 1.0) {
    pass2_near<false>(tile, c, offset, scale, out);
  } else {
    pass2_far(tile, c, offset, lse, scale, out);
  }
}

}  // namespace

extern const TileKernel DRIFTGATE_KERNEL;
const TileKernel DRIFTGATE_KERNEL = {DRIFTGATE_KERNEL_NAME, pass1, pass1_drift, pass2};

}  // namespace driftgate::gpu::cpu
