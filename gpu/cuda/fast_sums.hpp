#pragma once

#include "gpu/cuda/fast_shared.hpp"

/// The two summing sweeps of the float32 kernel over columns that are on chip (or in L2).
namespace driftgate::gpu::cuda {

/// d' = (z − y) − c. For float32 logits what the subtraction z − y rounded off is added (Knuth's two-sum), so
/// that a constant between the kernels costs no accuracy; differences of 16-bit logits are exact beside a
/// pivot of at most kLargestPivot.
constexpr float kLargestPivot = 1.0F;

template <std::uint32_t Dtype>
DRIFTGATE_HD float drift_of(float z, float y, const Frame& frame) {
  const float s = z - y;
  if constexpr (Dtype != DRIFTGATE_F32) return s - frame.pivot;
  const float part = s - z;
  return (s - frame.pivot) + (((z - (s - part)) - (y + part)) - frame.pivot_low);
}

/// Pass 1 as FastRow::sums. `Part`: of a part of a row, where Σf·(y − y_top) can not wait for pass 2.
template <bool Part>
struct FirstSums {
  float values[kFirstSums] = {};
  float low = HUGE_VALF, high = -HUGE_VALF;
};

template <std::uint32_t Dtype, int Level, bool Part>
DRIFTGATE_HD void add_pass1(float z, float y, const Frame& frame, FirstSums<Part>& sums) {
  const float d = drift_of<Dtype>(z, y, frame);
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

/// Pass 1 where no more than both divergences are wanted: ten moments of d', Σe, Σe·d'.
struct CoreSums {
  float values[kCoreSums] = {};
  float low = HUGE_VALF, high = -HUGE_VALF;
};

template <std::uint32_t Dtype, int Level>
DRIFTGATE_HD void add_pass1(float z, float y, const Frame& frame, CoreSums& sums) {
  const float d = drift_of<Dtype>(z, y, frame);
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

template <std::uint32_t Dtype, int Level>
DRIFTGATE_HD void add_second(float z, float y, const Frame& frame, SecondSums& sums) {
  const float d = drift_of<Dtype>(z, y, frame) + frame.offset;
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

/// Adds every column of the slice but the one with the largest z, whose terms are exact and not summed.
template <std::uint32_t Dtype, class Ctx, class Add>
DRIFTGATE_HD void sweep(Ctx& ctx, const Slice& slice, std::uint32_t top_id, Add&& add) {
  constexpr unsigned kEach = kLanes<Dtype>;
  const std::uint32_t top = top_id / kEach - slice.first;  // wraps around when it is in another block
  for (std::uint32_t i = ctx.thread(); i < slice.count; i += ctx.threads()) {
    Vector z, y;
    load_pair(ctx, slice, i, z, y);
    float a[kEach], b[kEach];
    unpack<Dtype>(z, a);
    unpack<Dtype>(y, b);
    if (i == top) {
      for (unsigned lane = 0; lane < kEach; ++lane) {
        if (lane == top_id % kEach) continue;
        const auto first = reinterpret_cast<const unsigned char*>(slice.train);
        const auto second = reinterpret_cast<const unsigned char*>(slice.inf);
        const std::uint32_t id = top_id / kEach * kEach + lane;
        add(load_element(first, Dtype, id), load_element(second, Dtype, id));
      }
      continue;
    }
    DRIFTGATE_UNROLL
    for (unsigned lane = 0; lane < kEach; ++lane) add(a[lane], b[lane]);
  }
  visit_tail<Dtype>(ctx, slice, [&](float z, float y, std::uint32_t id) {
    if (id != top_id) add(z, y);
  });
}

/// Adds up a block's sums: value v of `out` is the float64 sum over the warps, in order.
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
  sweep<Dtype>(ctx, slice, frame.top_id,
               [&](float z, float y) { add_pass1<Dtype, Level>(z, y, frame, sums); });
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
DRIFTGATE_HD void second_sums(Ctx& ctx, const Slice& slice, const Frame& frame, FastPart& part) {
  FastShared& shared = ctx.shared();
  const unsigned warp = ctx.thread() / 32;
  SecondSums sums;
  sweep<Dtype>(ctx, slice, frame.top_id,
               [&](float z, float y) { add_second<Dtype, Level>(z, y, frame, sums); });
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
