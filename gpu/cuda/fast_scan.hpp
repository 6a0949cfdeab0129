#pragma once

#include "gpu/cuda/fast_shared.hpp"

/// The first sweep of the float32 kernel: reads the columns of the block from device memory, keeps them, and
/// finds maxima, the range of the drift and the top lists of the block.
namespace driftgate::gpu::cuda {

constexpr unsigned kInFlight = 4;  ///< vectors of each kernel that a thread has on their way

/// What one thread has found in its columns.
struct Extremes {
  float top_z, top_y, low, high;
};

DRIFTGATE_HD void scan_pair(float z, float y, Extremes& out) {
  const float drift = z - y;
  out.top_z = larger(out.top_z, z);
  out.top_y = larger(out.top_y, y);
  out.low = smaller(out.low, drift);
  out.high = max_or_nan(out.high, drift);
}

template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD Extremes scan(Ctx& ctx, const Slice& slice) {
  constexpr float kFar = HUGE_VALF;
  Extremes out{-kFar, -kFar, kFar, -kFar};
  for (std::uint32_t i = ctx.thread(); i < slice.count; i += kInFlight * ctx.threads()) {
    Vector z[kInFlight], y[kInFlight];
    DRIFTGATE_UNROLL
    for (unsigned u = 0; u < kInFlight; ++u) {
      const std::uint32_t at = i + u * ctx.threads();
      if (at >= slice.count) continue;
      z[u] = ctx.stream(slice.train + slice.first + at);
      y[u] = ctx.stream(slice.inf + slice.first + at);
    }
    DRIFTGATE_UNROLL
    for (unsigned u = 0; u < kInFlight; ++u) {
      const std::uint32_t at = i + u * ctx.threads();
      if (at >= slice.count) continue;
      if (at < slice.cached) {
        ctx.cache_train()[at] = z[u];
        ctx.cache_inf()[at] = y[u];
      }
      float a[kLanes<Dtype>], b[kLanes<Dtype>];
      unpack<Dtype>(z[u], a);
      unpack<Dtype>(y[u], b);
      DRIFTGATE_UNROLL
      for (unsigned lane = 0; lane < kLanes<Dtype>; ++lane) scan_pair(a[lane], b[lane], out);
    }
  }
  visit_tail<Dtype>(ctx, slice, [&](float z, float y, std::uint32_t) { scan_pair(z, y, out); });
  return out;
}

DRIFTGATE_HD bool is_masked(float z, float y) {
  return z == -HUGE_VALF && y == -HUGE_VALF;
}

/// The range of the drift without masked columns, and their number: a second scan, for the few rows whose
/// first scan met NaN, the result of −∞ − (−∞).
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD std::uint32_t scan_masked(Ctx& ctx, const Slice& slice, Extremes& out) {
  std::uint32_t masked = 0;
  out.low = HUGE_VALF, out.high = -HUGE_VALF;
  const auto see = [&](float z, float y) {
    if (is_masked(z, y)) {
      ++masked;
    } else {
      scan_pair(z, y, out);
    }
  };
  for (std::uint32_t i = ctx.thread(); i < slice.count; i += ctx.threads()) {
    Vector z, y;
    load_pair(ctx, slice, i, z, y);
    float a[kLanes<Dtype>], b[kLanes<Dtype>];
    unpack<Dtype>(z, a);
    unpack<Dtype>(y, b);
    DRIFTGATE_UNROLL
    for (unsigned lane = 0; lane < kLanes<Dtype>; ++lane) see(a[lane], b[lane]);
  }
  visit_tail<Dtype>(ctx, slice, [&](float z, float y, std::uint32_t) { see(z, y); });
  return masked;
}

template <class Ctx>
DRIFTGATE_HD void offer(Ctx& ctx, unsigned kernel, float value, float other, std::uint32_t id) {
  FastShared& shared = ctx.shared();
  if (!(value >= shared.thresholds[kernel])) return;
  const std::uint32_t slot = ctx.next(&shared.counts[kernel]);
  if (slot < kMaxCandidates) shared.candidates[kernel][slot] = {value, other, id};
}

/// Threads whose maximum reaches the threshold read their columns again and offer each logit that reaches it.
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD void offer_columns(Ctx& ctx, const Slice& slice, const Extremes& found) {
  const FastShared& shared = ctx.shared();
  if (!(found.top_z >= shared.thresholds[0]) && !(found.top_y >= shared.thresholds[1])) return;
  for (std::uint32_t i = ctx.thread(); i < slice.count; i += ctx.threads()) {
    Vector z, y;
    load_pair(ctx, slice, i, z, y);
    float a[kLanes<Dtype>], b[kLanes<Dtype>];
    unpack<Dtype>(z, a);
    unpack<Dtype>(y, b);
    DRIFTGATE_UNROLL
    for (unsigned lane = 0; lane < kLanes<Dtype>; ++lane) {
      const std::uint32_t id = (slice.first + i) * kLanes<Dtype> + lane;
      offer(ctx, 0, a[lane], b[lane], id);
      offer(ctx, 1, b[lane], a[lane], id);
    }
  }
  visit_tail<Dtype>(ctx, slice, [&](float z, float y, std::uint32_t id) {
    offer(ctx, 0, z, y, id);
    offer(ctx, 1, y, z, id);
  });
}

/// Value descending, then id ascending.
DRIFTGATE_HD bool better(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// Sorts the candidates of one kernel by counting, with one warp. Returns whether there was room for all of
/// them.
template <class Ctx>
DRIFTGATE_HD void order_candidates(Ctx& ctx, unsigned kernel, TopEntry* list, std::uint32_t size) {
  FastShared& shared = ctx.shared();
  const std::uint32_t lane = ctx.thread() % 32;
  const std::uint32_t found = shared.counts[kernel] < kMaxCandidates ? shared.counts[kernel] : kMaxCandidates;
  for (std::uint32_t i = lane; i < found; i += 32) {
    const Candidate own = shared.candidates[kernel][i];
    std::uint32_t rank = 0;
    for (std::uint32_t j = 0; j < found; ++j) rank += better(shared.candidates[kernel][j], own) ? 1U : 0U;
    if (rank < size) list[rank] = {own.value, own.id};
    if (rank == 0 && kernel == 0) {
      shared.located.top_z = own.value;
      shared.located.top_y = own.other;
      shared.located.top_id = own.id;
    }
  }
  for (std::uint32_t i = found + lane; i < size; i += 32) list[i] = {-HUGE_VALF, 0xffffffffU};
}

/// The largest value that the maxima of at least `size` groups reach, so that at least `size` columns reach
/// it.
template <class Ctx>
DRIFTGATE_HD void choose_threshold(Ctx& ctx, unsigned kernel, std::uint32_t size) {
  FastShared& shared = ctx.shared();
  const unsigned lane = ctx.thread() % 32;
  const float own = shared.groups[kernel][lane];
  std::uint32_t above = 0, reached = 0, before = 0;
  for (unsigned i = 0; i < kGroups; ++i) {
    const float other = shared.groups[kernel][i];
    above += other > own ? 1U : 0U;
    reached += other >= own ? 1U : 0U;
    before += other == own && i < lane ? 1U : 0U;
  }
  if (above < size && reached >= size && before == 0) shared.thresholds[kernel] = own;
}

/// Fills shared.located and the block's two top lists. Ends without a barrier.
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD void locate(Ctx& ctx, const Slice& slice, TopEntry* lists, std::uint32_t list_size) {
  FastShared& shared = ctx.shared();
  Extremes found = scan<Dtype>(ctx, slice);
  std::uint32_t masked = 0;
  if (found.high != found.high) masked = scan_masked<Dtype>(ctx, slice, found);
  const unsigned warp = ctx.thread() / 32, lane = ctx.thread() % 32;
  const unsigned group = ctx.threads() / kGroups;  // threads in one
  float top_z = found.top_z, top_y = found.top_y;
  for (unsigned mask = group / 2; mask >= 1; mask /= 2) {
    top_z = larger(top_z, ctx.shuffle_xor(top_z, mask));
    top_y = larger(top_y, ctx.shuffle_xor(top_y, mask));
  }
  if (ctx.thread() % group == 0) {
    shared.groups[0][ctx.thread() / group] = top_z;
    shared.groups[1][ctx.thread() / group] = top_y;
  }
  const float low = warp_min(ctx, found.low), high = warp_max_or_nan(ctx, found.high);
  if (lane == 0) shared.warp_low[warp][0] = low, shared.warp_high[warp][0] = high;
  if (ctx.thread() < 2) shared.counts[ctx.thread()] = 0, shared.thresholds[ctx.thread()] = HUGE_VALF;
  if (ctx.thread() == 2) shared.masked = 0;
  ctx.sync();
  // A single warp sorts both lists.
  for (unsigned kernel = warp; kernel < 2; kernel += ctx.threads() / 32) {
    choose_threshold(ctx, kernel, list_size);
  }
  ctx.sync();
  if (masked > 0) ctx.add(&shared.masked, masked);
  offer_columns<Dtype>(ctx, slice, found);
  ctx.sync();
  for (unsigned kernel = warp; kernel < 2; kernel += ctx.threads() / 32) {
    order_candidates(ctx, kernel, lists + kernel * list_size, list_size);
  }
  if (ctx.thread() == 0) {
    Located& out = shared.located;
    out.low = shared.warp_low[0][0], out.high = shared.warp_high[0][0];
    for (unsigned i = 1; i < ctx.threads() / 32; ++i) {
      out.low = smaller(out.low, shared.warp_low[i][0]);
      out.high = max_or_nan(out.high, shared.warp_high[i][0]);
    }
    out.masked = shared.masked;
    out.crowded = shared.counts[0] > kMaxCandidates || shared.counts[1] > kMaxCandidates ? 1 : 0;
  }
}

}  // namespace driftgate::gpu::cuda
