#pragma once

#include "gpu/cuda/fast_shared.hpp"

/// The two summing sweeps of the float32 kernel over columns that are on chip (or in L2). See
/// docs/design/measurement.md, "Pass 1: sums about a pivot" and "Sums of powers".
namespace driftgate::gpu::cuda {

/// d' = (z − y) − c. For float32 logits the rounding error of z − y is added (Knuth's two-sum), so that a
/// constant between the kernels costs no accuracy; differences of 16-bit logits are exact for a pivot of at
/// most kLargestPivot.
constexpr float kLargestPivot = 1.0F;

template <std::uint32_t Dtype>
DRIFTGATE_HD float drift_of(float z, float y, const Frame& frame) {
  const float s = z - y;
  if constexpr (Dtype != DRIFTGATE_F32) return s - frame.pivot;
  const float part = s - z;
  return (s - frame.pivot) + (((z - (s - part)) - (y + part)) - frame.pivot_low);
}

/// The sums of pass 1, as FastRow::sums. `Part`: for a part of a row, where Σf·(y − y_top) must be summed in
/// pass 1.
template <bool Part>
struct FirstSums {
  float values[kFirstSums] = {};
  float low = HUGE_VALF, high = -HUGE_VALF;
};

template <std::uint32_t Dtype, int Level, bool Part>
DRIFTGATE_HD void add_pass1(float z, float d, const Frame& frame, FirstSums<Part>& sums) {
  const float x = z - frame.top_z;
  const float e = exp2_fast(x * kLog2e);
  const float d2 = d * d, minus = phi_minus<Level>(d, d2);
  sums.values[0] += e;
  sums.values[1] = fmaf(e, d, sums.values[1]);
  sums.values[2] = fmaf(e, minus, sums.values[2]);
  sums.values[3] = fmaf(e, x, sums.values[3]);
  sums.values[4] += d;
  sums.values[5] += d2;
  if constexpr (Part) sums.values[6] = fmaf(fmaf(e, minus - d, e), x - d, sums.values[6]);
  // 16-bit differences had their range taken exactly in the scan.
  if constexpr (Dtype == DRIFTGATE_F32) sums.low = smaller(sums.low, d), sums.high = larger(sums.high, d);
}

/// Adds e·d^k for k = 2 … to moments[k − 2].
template <int Level, std::size_t N>
DRIFTGATE_HD void add_moments(float e, float d, float d2, float (&moments)[N]) {
  float even = e * d2, odd = even * d;
  DRIFTGATE_UNROLL
  for (int k = 2; k <= Series<Level>::kMost; k += 2) {
    moments[k - 2] += even;
    even *= d2;
    if (k + 1 > Series<Level>::kMost) break;
    moments[k - 1] += odd;
    odd *= d2;
  }
}

/// The sums of pass 1 where only the two KL divergences are needed: ten moments of d', Σe, Σe·d'.
struct CoreSums {
  float values[kCoreSums] = {};
  float low = HUGE_VALF, high = -HUGE_VALF;
};

template <std::uint32_t Dtype, int Level>
DRIFTGATE_HD void add_pass1(float z, float d, const Frame& frame, CoreSums& sums) {
  const float e = exp2_fast((z - frame.top_z) * kLog2e);
  add_moments<Level>(e, d, d * d, sums.values);
  sums.values[10] += e;
  sums.values[11] = fmaf(e, d, sums.values[11]);
  if constexpr (Dtype == DRIFTGATE_F32) sums.low = smaller(sums.low, d), sums.high = larger(sums.high, d);
}

struct SecondSums {
  float values[kSecondSums] = {};  ///< ten moments, Σ|change|, Σ change·x, then tails of e and of change
  float low[kHeads] = {HUGE_VALF, HUGE_VALF}, high[kHeads] = {-HUGE_VALF, -HUGE_VALF};
};

template <int Level>
DRIFTGATE_HD void add_second(float z, float d, const Frame& frame, SecondSums& sums) {
  const float x = z - frame.top_z;
  const float e = exp2_fast(x * kLog2e);
  const float change = e * expm1_minus<Level>(d);  // q − p, in units of e
  add_moments<Level>(e, d, d * d, sums.values);
  sums.values[10] += fabsf(change);
  sums.values[11] = fmaf(change, x, sums.values[11]);
  DRIFTGATE_UNROLL
  for (unsigned head = 0; head < kHeads; ++head) {
    if (e > frame.least_e[head]) {
      sums.low[head] = smaller(sums.low[head], d);
      sums.high[head] = larger(sums.high[head], d);
    } else {
      sums.values[12 + head] += e;
      sums.values[14 + head] += change;
    }
  }
}

/// Gives a masked column (its y is −∞ too, as the scan has found) e = 0 and d' = 0, which add nothing.
DRIFTGATE_HD void skip_masked(float& z, float& d) {
  const bool masked = z == -HUGE_VALF;
  z = masked ? -3e38F : z;
  d = masked ? 0.0F : d;
}

/// The pass of a sweep. A float32 drift takes nine operations and fits into the place of y: pass 1 stores the
/// drifts of cached vectors there, and pass 2 reads them.
enum class Sweep { first, second_after_first, second_alone };

/// Calls add(z, d') for every column of the slice except the one with the largest z, whose terms are exact
/// and added at the end.
template <std::uint32_t Dtype, Sweep Pass, class Ctx, class Add>
DRIFTGATE_HD void sweep(Ctx& ctx, const Slice& slice, const Frame& frame, Add&& add) {
  constexpr unsigned kEach = kLanes<Dtype>;
  constexpr bool kKeeps = Dtype == DRIFTGATE_F32;
  const std::uint32_t top = frame.top_id / kEach - slice.first;  // wraps around when it is in another block
  for (std::uint32_t i = ctx.thread(); i < slice.count; i += ctx.threads()) {
    if (i == top) {
      DRIFTGATE_NO_UNROLL
      for (unsigned lane = 0; lane < kEach; ++lane) {
        const std::uint32_t id = (slice.first + i) * kEach + lane;
        if (id == frame.top_id) continue;
        const float z = load_element(reinterpret_cast<const unsigned char*>(slice.train), Dtype, id);
        const float y = load_element(reinterpret_cast<const unsigned char*>(slice.inf), Dtype, id);
        if (z > -HUGE_VALF) add(z, drift_of<Dtype>(z, y, frame));
      }
      continue;
    }
    Vector train, inf;
    load_pair(ctx, slice, i, train, inf);
    float z[kEach], d[kEach];
    unpack<Dtype>(train, z);
    unpack<Dtype>(inf, d);
    if (!kKeeps || Pass != Sweep::second_after_first || i >= slice.cached) {
      DRIFTGATE_UNROLL
      for (unsigned lane = 0; lane < kEach; ++lane) d[lane] = drift_of<Dtype>(z[lane], d[lane], frame);
    }
    if (frame.masked != 0) {
      DRIFTGATE_UNROLL
      for (unsigned lane = 0; lane < kEach; ++lane) skip_masked(z[lane], d[lane]);
    }
    if (kKeeps && Pass == Sweep::first && i < slice.cached) {
      DRIFTGATE_UNROLL
      for (unsigned lane = 0; lane < 4; ++lane) inf.words[lane] = float_to_bits(d[lane]);
      ctx.cache_inf()[i] = inf;
    }
    DRIFTGATE_UNROLL
    for (unsigned lane = 0; lane < kEach; ++lane) add(z[lane], d[lane]);
  }
  visit_tail<Dtype>(ctx, slice, [&](float z, float y, std::uint32_t id) {
    if (id != frame.top_id && z > -HUGE_VALF) add(z, drift_of<Dtype>(z, y, frame));
  });
}

/// Adds the sums of a block: value v of `out` is the float64 sum over the warps, in order.
template <int N, class Ctx, class Out>
DRIFTGATE_HD void block_sums(Ctx& ctx, float (&values)[N], Out&& out) {
  FastShared& shared = ctx.shared();
  const unsigned warp = ctx.thread() / 32, lane = ctx.thread() % 32;
  const float total = warp_sums<N>(ctx, values);
  if (lane % (32 / N) == 0) shared.warp_values[warp][lane / (32 / N)] = total;
  ctx.sync();
  if (ctx.thread() < N) {
    double sum = 0;
    for (unsigned i = 0; i < ctx.threads() / 32; ++i) {
      sum += static_cast<double>(shared.warp_values[i][ctx.thread()]);
    }
    out(ctx.thread(), sum);
  }
}

/// Pass 1 into shared.sums: FirstSums, or CoreSums.
template <std::uint32_t Dtype, int Level, class Sums, class Ctx>
DRIFTGATE_HD void first_sums(Ctx& ctx, const Slice& slice, const Frame& frame) {
  FastShared& shared = ctx.shared();
  const unsigned warp = ctx.thread() / 32;
  Sums sums;
  sweep<Dtype, Sweep::first>(ctx, slice, frame,
                             [&](float z, float d) { add_pass1<Dtype, Level>(z, d, frame, sums); });
  if constexpr (Dtype == DRIFTGATE_F32) {
    const float low = warp_min(ctx, sums.low), high = warp_max_or_nan(ctx, sums.high);
    if (ctx.thread() % 32 == 0) shared.warp_low[warp][0] = low, shared.warp_high[warp][0] = high;
  }
  block_sums(ctx, sums.values, [&](unsigned at, double sum) { shared.sums[at] = sum; });
  if (Dtype == DRIFTGATE_F32 && ctx.thread() == 0) {
    shared.block_low = shared.warp_low[0][0], shared.block_high = shared.warp_high[0][0];
    for (unsigned i = 1; i < ctx.threads() / 32; ++i) {
      shared.block_low = smaller(shared.block_low, shared.warp_low[i][0]);
      shared.block_high = larger(shared.block_high, shared.warp_high[i][0]);
    }
  }
}

template <std::uint32_t Dtype, int Level, class Ctx>
DRIFTGATE_HD void second_sums(Ctx& ctx, const Slice& slice, const Frame& frame,
                              [[maybe_unused]] bool after_first, FastPart& part) {
  FastShared& shared = ctx.shared();
  const unsigned warp = ctx.thread() / 32;
  SecondSums sums;
  const auto add = [&](float z, float d) { add_second<Level>(z, d + frame.offset, frame, sums); };
  if constexpr (Dtype == DRIFTGATE_F32) {
    if (after_first) {
      sweep<Dtype, Sweep::second_after_first>(ctx, slice, frame, add);
    } else {
      sweep<Dtype, Sweep::second_alone>(ctx, slice, frame, add);
    }
  } else {
    sweep<Dtype, Sweep::second_alone>(ctx, slice, frame, add);
  }
  DRIFTGATE_UNROLL
  for (unsigned head = 0; head < kHeads; ++head) {
    const float low = warp_min(ctx, sums.low[head]), high = warp_max_or_nan(ctx, sums.high[head]);
    if (ctx.thread() % 32 == 0) shared.warp_low[warp][head] = low, shared.warp_high[warp][head] = high;
  }
  block_sums(ctx, sums.values, [&](unsigned at, double sum) {
    if (at < 10) {
      part.moments[at] = sum;
    } else if (at < 12) {
      (at == 10 ? part.abs_change : part.change_x) = sum;
    } else {
      (at < 14 ? part.tail_e : part.tail_change)[at % 2] = sum;
    }
  });
  if (ctx.thread() < kHeads) {
    float low = HUGE_VALF, high = -HUGE_VALF;
    for (unsigned i = 0; i < ctx.threads() / 32; ++i) {
      low = smaller(low, shared.warp_low[i][ctx.thread()]);
      high = larger(high, shared.warp_high[i][ctx.thread()]);
    }
    part.low[ctx.thread()] = low, part.high[ctx.thread()] = high;
  }
}

}  // namespace driftgate::gpu::cuda
