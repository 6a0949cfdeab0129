#pragma once

#include "gpu/cuda/pass_math.hpp"
#include "gpu/cuda/reduce.hpp"
#include "gpu/cuda/terms.hpp"

/// The float64 form: one block measures a row in several sweeps through L2. It measures every row: masked and
/// nonfinite logits, any drift and temperature, different element types, long top lists, ties. See
/// docs/design/measurement.md, "The divergences in floating point".
namespace driftgate::gpu::cuda {

constexpr unsigned kWideThreads = 256;
constexpr unsigned kDigits = 256;  ///< of the radix selection

/// The largest logits of some columns: value descending, then id ascending.
struct Best {
  float value, second;  ///< the largest and the next, which may be equal
  std::uint32_t id;
};

struct WideShared {
  double warp_values[kWideThreads / 32][kWideFirst];
  double warp_low[kWideThreads / 32][kHeads], warp_high[kWideThreads / 32][kHeads];
  double total[kWideFirst];
  Best best[2][kWideThreads];
  std::uint32_t histogram[kDigits];
  std::uint32_t unmasked, nonfinite, overlap;
  std::uint32_t far;  ///< columns whose logits differ by more than kSentinelBound
  std::uint32_t remaining, done;
  std::uint64_t prefix, thresholds[2];
  RowSums row;
  double offset, lse;
};

struct WideInput {
  const unsigned char* train;
  const unsigned char* inf;
  std::uint32_t train_dtype, inf_dtype, columns;
};

/// Calls visit(z, y, id) for each column of the thread that is not masked.
template <class Ctx, class Visit>
DRIFTGATE_HD void visit_columns(Ctx& ctx, const WideInput& in, Visit&& visit) {
  for (std::uint32_t id = ctx.thread(); id < in.columns; id += ctx.threads()) {
    const float z = load_element(in.train, in.train_dtype, id), y = load_element(in.inf, in.inf_dtype, id);
    if (z == -HUGE_VALF && y == -HUGE_VALF) continue;
    visit(z, y, id);
  }
}

DRIFTGATE_HD void take(Best& best, float value, std::uint32_t id) {
  if (value > best.value || (value == best.value && id < best.id)) {
    best.second = best.value;
    best.value = value;
    best.id = id;
  } else if (value > best.second) {
    best.second = value;
  }
}
DRIFTGATE_HD Best merged(const Best& a, const Best& b) {
  const bool first = a.value > b.value || (a.value == b.value && a.id < b.id);
  Best out = first ? a : b;
  const Best& other = first ? b : a;
  out.second = larger(out.second, other.value);
  return out;
}

/// A key whose integer order is value descending, then id ascending, largest first.
DRIFTGATE_HD std::uint64_t key_of(float value, std::uint32_t id) {
  const std::uint32_t bits = float_to_bits(value + 0.0F);  // −0 is 0
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{ordered} << 32 | (0xffffffffU - id);
}

/// The least key of the `size` largest logits of one kernel, by radix selection from the highest digit.
template <class Ctx>
DRIFTGATE_HD std::uint64_t select_key(Ctx& ctx, const WideInput& in, unsigned kernel, std::uint32_t size) {
  WideShared& shared = ctx.wide();
  if (ctx.thread() == 0) shared.prefix = 0, shared.remaining = size, shared.done = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (unsigned i = ctx.thread(); i < kDigits; i += ctx.threads()) shared.histogram[i] = 0;
    ctx.sync();
    const std::uint64_t prefix = shared.prefix;
    visit_columns(ctx, in, [&](float z, float y, std::uint32_t id) {
      const std::uint64_t key = key_of(kernel == 0 ? z : y, id);
      if (shift < 56 && (key >> (shift + 8)) != (prefix >> (shift + 8))) return;
      ctx.next(&shared.histogram[(key >> shift) & 255U]);
    });
    ctx.sync();
    if (ctx.thread() == 0) {
      unsigned digit = kDigits - 1;
      while (digit > 0 && shared.histogram[digit] < shared.remaining) {
        shared.remaining -= shared.histogram[digit--];
      }
      shared.prefix |= std::uint64_t{digit} << shift;
      shared.done =
          shared.histogram[digit] == shared.remaining ? 1 : 0;  // all keys with this digit belong to the set
    }
    ctx.sync();
    if (shared.done != 0) break;
  }
  return shared.prefix;
}

/// Adds `values` over the block into shared.total; ends with a barrier.
template <class Ctx>
DRIFTGATE_HD void wide_sums(Ctx& ctx, const double (&values)[kWideFirst]) {
  WideShared& shared = ctx.wide();
  for (unsigned i = 0; i < kWideFirst; ++i) {
    const double sum = warp_sum(ctx, values[i]);
    if (ctx.thread() % 32 == 0) shared.warp_values[ctx.thread() / 32][i] = sum;
  }
  ctx.sync();
  if (ctx.thread() < kWideFirst) {
    double sum = 0;
    for (unsigned i = 0; i < ctx.threads() / 32; ++i) sum += shared.warp_values[i][ctx.thread()];
    shared.total[ctx.thread()] = sum;
  }
  ctx.sync();
}

/// The logits of a column divided by the temperature, and their difference.
struct WidePair {
  double a, b, drift;
};
/// `sentinels`: the row contains sentinels for masked tokens, so that logits are raised to the bound
/// (kSentinelBound).
DRIFTGATE_HD WidePair wide_pair(float z, float y, double temperature, bool sentinels) {
  WidePair out{static_cast<double>(z) / temperature, static_cast<double>(y) / temperature,
               (static_cast<double>(z) - static_cast<double>(y)) / temperature};
  if (!sentinels) return out;
  const double bound = sentinel_bound(temperature);
  out.a = std::fmax(out.a, -bound), out.b = std::fmax(out.b, -bound);
  out.drift = out.a - out.b;
  return out;
}

DRIFTGATE_HD bool has_sentinels(const WideShared& shared, double temperature) {
  const double bound = sentinel_bound(temperature) * temperature;
  return shared.far > 0 && static_cast<double>(shared.best[0][0].value) <= bound &&
         static_cast<double>(shared.best[1][0].value) <= bound;
}

/// Counts columns and finds maxima. Returns false when the row has no figures.
template <class Ctx>
DRIFTGATE_HD bool count_columns(Ctx& ctx, const WideInput& in, double temperature) {
  WideShared& shared = ctx.wide();
  if (ctx.thread() == 0) shared.unmasked = shared.nonfinite = shared.overlap = shared.far = 0;
  ctx.sync();
  Best z_best{-HUGE_VALF, -HUGE_VALF, 0xffffffffU}, y_best = z_best;
  std::uint32_t unmasked = 0, nonfinite = 0, far = 0;
  const double bound = sentinel_bound(temperature);
  visit_columns(ctx, in, [&](float z, float y, std::uint32_t id) {
    ++unmasked;
    far += std::fabs(wide_pair(z, y, temperature, false).drift) > bound ? 1U : 0U;
    nonfinite += (fabsf(z) < HUGE_VALF ? 0U : 1U) + (fabsf(y) < HUGE_VALF ? 0U : 1U);
    take(z_best, z, id);
    take(y_best, y, id);
  });
  ctx.add(&shared.unmasked, unmasked);
  ctx.add(&shared.nonfinite, nonfinite);
  ctx.add(&shared.far, far);
  shared.best[0][ctx.thread()] = z_best;
  shared.best[1][ctx.thread()] = y_best;
  ctx.sync();
  for (unsigned half = ctx.threads() / 2; half >= 1; half /= 2) {
    for (unsigned kernel = 0; kernel < 2; ++kernel) {
      Best* best = shared.best[kernel];
      if (ctx.thread() < half) best[ctx.thread()] = merged(best[ctx.thread()], best[ctx.thread() + half]);
    }
    ctx.sync();
  }
  return shared.nonfinite == 0 && shared.unmasked > 0;
}

/// Selects the top sets of both kernels in a row that has figures: their least keys, and the number of
/// columns in both.
template <class Ctx>
DRIFTGATE_HD void select_tops(Ctx& ctx, const WideInput& in, std::uint32_t top_k) {
  WideShared& shared = ctx.wide();
  const std::uint32_t size = top_k < shared.unmasked ? top_k : shared.unmasked;
  for (unsigned kernel = 0; kernel < 2; ++kernel) {
    const std::uint64_t key = select_key(ctx, in, kernel, size);
    ctx.sync();
    if (ctx.thread() == 0) shared.thresholds[kernel] = key;
  }
  ctx.sync();
  std::uint32_t both = 0;
  visit_columns(ctx, in, [&](float z, float y, std::uint32_t id) {
    both += key_of(z, id) >= shared.thresholds[0] && key_of(y, id) >= shared.thresholds[1] ? 1U : 0U;
  });
  ctx.add(&shared.overlap, both);
  ctx.sync();
}

/// Writes the entries of the top sets, up to `size` for each kernel, unsorted.
template <class Ctx>
DRIFTGATE_HD void write_tops(Ctx& ctx, const WideInput& in, std::uint32_t first_column, std::uint32_t size,
                             driftgate_top_entry* out) {
  WideShared& shared = ctx.wide();
  if (ctx.thread() < 2) shared.histogram[ctx.thread()] = 0;
  ctx.sync();
  visit_columns(ctx, in, [&](float z, float y, std::uint32_t id) {
    const float values[] = {z, y};
    for (unsigned kernel = 0; kernel < 2; ++kernel) {
      if (key_of(values[kernel], id) < shared.thresholds[kernel]) continue;
      const std::uint32_t slot = ctx.next(&shared.histogram[kernel]);
      if (slot < size)
        out[kernel * size + slot] = {static_cast<double>(values[kernel]), first_column + id, 0};
    }
  });
  ctx.sync();
}

template <class Ctx>
DRIFTGATE_HD void wide_first_pass(Ctx& ctx, const WideInput& in, double temperature) {
  WideShared& shared = ctx.wide();
  PassSums& pass = shared.row.pass;
  const bool sentinels = has_sentinels(shared, temperature);
  if (ctx.thread() == 0) {
    const float z = shared.best[0][0].value, y = shared.best[1][0].value;
    const float beside = load_element(in.inf, in.inf_dtype, shared.best[0][0].id);
    const WidePair top = wide_pair(z, beside, temperature, sentinels);
    pass.m_p = top.a;
    pass.m_q = wide_pair(z, y, temperature, sentinels).b;
    pass.c = top.drift;
    pass.n = static_cast<double>(shared.unmasked);
  }
  ctx.sync();
  const double m_p = pass.m_p, m_q = pass.m_q, c = pass.c;
  double sums[kWideFirst] = {};
  double low = HUGE_VAL, high = -HUGE_VAL;
  visit_columns(ctx, in, [&](float z, float y, std::uint32_t) {
    const double drift = wide_pair(z, y, temperature, false).drift;
    low = std::fmin(low, drift), high = std::fmax(high, drift);
    const WidePair pair = wide_pair(z, y, temperature, sentinels);
    add_wide_first(pair.a - m_p, pair.b - m_q, pair.drift - c, sums);
  });
  for (unsigned mask = 16; mask >= 1; mask /= 2) {
    low = std::fmin(low, ctx.shuffle_xor(low, mask));
    high = std::fmax(high, ctx.shuffle_xor(high, mask));
  }
  if (ctx.thread() % 32 == 0) {
    shared.warp_low[ctx.thread() / 32][0] = low, shared.warp_high[ctx.thread() / 32][0] = high;
  }
  wide_sums(ctx, sums);
  if (ctx.thread() != 0) return;
  pass.min_drift = HUGE_VAL, pass.max_drift = -HUGE_VAL;
  for (unsigned i = 0; i < ctx.threads() / 32; ++i) {
    pass.min_drift = std::fmin(pass.min_drift, shared.warp_low[i][0]);
    pass.max_drift = std::fmax(pass.max_drift, shared.warp_high[i][0]);
  }
  const double* total = shared.total;
  pass.l_p = total[0], pass.s = total[1], pass.g = total[2], pass.a_p = total[3];
  pass.l_q = total[4], pass.t = total[5], pass.h = total[6], pass.a_q = total[7];
  pass.mean_drift = c + total[8] / pass.n;
  pass.m2 = std::fmax(0.0, total[9] - total[8] * total[8] / pass.n);
  shared.offset = offset_of(pass);
  shared.lse = m_p + std::log(pass.l_p);
  for (unsigned head = 0; head < kHeads; ++head) {
    shared.row.terms.heads[head] = {least_of_head(pass, head), HUGE_VAL, -HUGE_VAL, 0, 0};
  }
}

template <class Ctx>
DRIFTGATE_HD void wide_second_pass(Ctx& ctx, const WideInput& in, double temperature) {
  WideShared& shared = ctx.wide();
  const double c = shared.row.pass.c, offset = shared.offset, lse = shared.lse;
  TermSums own{};
  for (unsigned head = 0; head < kHeads; ++head) own.heads[head] = shared.row.terms.heads[head];
  const bool sentinels = has_sentinels(shared, temperature);
  visit_columns(ctx, in, [&](float z, float y, std::uint32_t) {
    const WidePair pair = wide_pair(z, y, temperature, sentinels);
    const double d = (pair.drift - c) + offset;
    const double log_p = pair.a - lse, p = std::exp(log_p);
    add_terms(terms_of(p, log_p, d), p, d, own);
  });
  for (unsigned head = 0; head < kHeads; ++head) {
    double low = own.heads[head].min_d, high = own.heads[head].max_d;
    for (unsigned mask = 16; mask >= 1; mask /= 2) {
      low = std::fmin(low, ctx.shuffle_xor(low, mask));
      high = std::fmax(high, ctx.shuffle_xor(high, mask));
    }
    if (ctx.thread() % 32 == 0) {
      shared.warp_low[ctx.thread() / 32][head] = low, shared.warp_high[ctx.thread() / 32][head] = high;
    }
  }
  const double values[kWideFirst] = {own.kl_train_inf,
                                     own.kl_inf_train,
                                     own.tv,
                                     own.js,
                                     own.hellinger2,
                                     own.chi2,
                                     own.heads[0].tail_p,
                                     own.heads[1].tail_p,
                                     own.heads[0].tail_q,
                                     own.heads[1].tail_q};
  wide_sums(ctx, values);
  if (ctx.thread() != 0) return;
  const double* total = shared.total;
  TermSums& terms = shared.row.terms;
  terms.kl_train_inf = total[0], terms.kl_inf_train = total[1], terms.tv = total[2];
  terms.js = total[3], terms.hellinger2 = total[4], terms.chi2 = total[5];
  for (unsigned head = 0; head < kHeads; ++head) {
    HeadSums& out = terms.heads[head];
    out.tail_p = total[6 + head], out.tail_q = total[8 + head];
    for (unsigned i = 0; i < ctx.threads() / 32; ++i) {
      out.min_d = std::fmin(out.min_d, shared.warp_low[i][head]);
      out.max_d = std::fmax(out.max_d, shared.warp_high[i][head]);
    }
  }
}

DRIFTGATE_HD WideInput wide_input(const BatchView& batch, std::uint64_t row) {
  return {batch.train + row * batch.train_stride_bytes, batch.inf + row * batch.inf_stride_bytes,
          batch.train_dtype, batch.inf_dtype, batch.columns};
}

/// Called by thread 0: the results for the row besides its two passes.
DRIFTGATE_HD void summarize(WideShared& shared, RowSums& out) {
  const Best &train = shared.best[0][0], &inf = shared.best[1][0];
  const double margin =
      shared.unmasked < 2 ? HUGE_VAL : static_cast<double>(train.value) - static_cast<double>(train.second);
  shared.row.top = {train.id,        inf.id, shared.overlap,
                    shared.unmasked, margin, static_cast<double>(inf.value)};
  shared.row.nonfinite = shared.nonfinite;
  out = shared.row;
}

/// Measures a whole row. Called by all threads of a block; their number is a power of two and at least
/// kWideFirst.
template <class Ctx>
DRIFTGATE_HD void measure_wide_row(Ctx& ctx, const BatchView& batch, std::uint64_t row, RowSums& out) {
  const WideInput in = wide_input(batch, row);
  if (count_columns(ctx, in, batch.temperature)) {
    select_tops(ctx, in, batch.top_k);
    wide_first_pass(ctx, in, batch.temperature);
    ctx.sync();
    wide_second_pass(ctx, in, batch.temperature);
  }
  if (ctx.thread() == 0) summarize(ctx.wide(), out);
  ctx.sync();
}

/// Pass 1 over a part of a row, with its top entries.
template <class Ctx>
DRIFTGATE_HD void measure_wide_part(Ctx& ctx, const BatchView& batch, const BatchScratch& scratch,
                                    std::uint64_t row) {
  const WideInput in = wide_input(batch, row);
  const std::uint32_t size = scratch.list_size;
  if (count_columns(ctx, in, batch.temperature)) {
    select_tops(ctx, in, size);
    write_tops(ctx, in, scratch.shard.first_column, size, scratch.shard.top + row * 2 * size);
    wide_first_pass(ctx, in, batch.temperature);
  }
  if (ctx.thread() == 0) summarize(ctx.wide(), scratch.wide[row]);
  ctx.sync();
}

/// Pass 2 over a part of a row for the merged sums: `terms`, unless the float32 kernel has computed them; and
/// pass 1 again where that kernel computed it but exact sums are needed.
template <class Ctx>
DRIFTGATE_HD void finish_wide_part(Ctx& ctx, const BatchView& batch, const driftgate_shard_row& merged,
                                   std::uint64_t row, bool terms, RowSums& out) {
  WideShared& shared = ctx.wide();
  const WideInput in = wide_input(batch, row);
  if (ctx.thread() == 0) shared.row = {};
  ctx.sync();
  const bool any = count_columns(ctx, in, batch.temperature);
  if (!terms && any) wide_first_pass(ctx, in, batch.temperature);
  ctx.sync();
  if (terms) {
    if (ctx.thread() == 0) {
      shared.row.pass.c = merged.sums.c;
      shared.offset = merged.offset;
      shared.lse = merged.lse;
      for (unsigned head = 0; head < kHeads; ++head) {
        shared.row.terms.heads[head] = {merged.least_p[head], HUGE_VAL, -HUGE_VAL, 0, 0};
      }
    }
    ctx.sync();
    wide_second_pass(ctx, in, batch.temperature);
  }
  if (ctx.thread() == 0) out = shared.row;
  ctx.sync();
}

/// The work of the float64 form on a row, in any mode.
template <class Ctx>
DRIFTGATE_HD void measure_wide(Ctx& ctx, const BatchView& batch, const BatchScratch& scratch,
                               std::uint64_t row) {
  const bool fast = scratch.fast && scratch.rows[row].outcome == Outcome::measured;
  if (batch.mode == Mode::shard_second) {
    const driftgate_shard_row& merged = scratch.shard.merged[row];
    if (merged.skip == 0 && (!fast || merged.exact != 0)) {
      finish_wide_part(ctx, batch, merged, row, !fast, scratch.wide[row]);
    }
  } else if (!fast && batch.mode == Mode::shard_first) {
    measure_wide_part(ctx, batch, scratch, row);
  } else if (!fast) {
    measure_wide_row(ctx, batch, row, scratch.wide[row]);
  }
}

}  // namespace driftgate::gpu::cuda
