#pragma once

#include "gpu/cuda/fast_scan.hpp"
#include "gpu/cuda/fast_sums.hpp"
#include "gpu/cuda/pass_math.hpp"

/// The float32 kernel: one cluster of blocks measures a row that it reads from device memory once. For rows
/// at temperature 1 whose logits are finite and of one type, with |d| ≤ 1; the others are left to the
/// float64 form (wide_row.hpp), as are rows whose figures show that they need it (finish.hpp).
namespace driftgate::gpu::cuda {

constexpr float kLargestLogit = 1e30F;  ///< differences of logits must stay finite

/// Thread 0 after the first barrier of the cluster: the row's maximum, pivot and series.
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD void make_frame(Ctx& ctx) {
  FastShared& shared = ctx.shared();
  Located all = shared.peers[0];
  for (unsigned i = 1; i < ctx.blocks(); ++i) {
    const Located& next = shared.peers[i];
    if (next.top_z > all.top_z) all.top_z = next.top_z, all.top_y = next.top_y, all.top_id = next.top_id;
    all.low = smaller(all.low, next.low);
    all.high = max_or_nan(all.high, next.high);
    all.crowded |= next.crowded;
  }
  Frame& frame = shared.frame;
  const double c = static_cast<double>(all.top_z) - static_cast<double>(all.top_y);
  shared.c = c;
  shared.low = all.low, shared.high = all.high;
  frame.top_z = all.top_z;
  frame.top_id = all.top_id;
  frame.pivot = static_cast<float>(c);
  frame.pivot_low = static_cast<float>(c - static_cast<double>(frame.pivot));
  const float above = all.high - frame.pivot, below = frame.pivot - all.low;
  const float size = max_or_nan(above, below);
  frame.level = size <= Series<0>::kSize ? 0 : size <= Series<1>::kSize ? 1 : 2;
  const bool simple =
      Dtype == DRIFTGATE_F32 || (fabsf(frame.pivot) <= kLargestPivot && frame.pivot_low == 0.0F);
  frame.fast =
      all.crowded == 0 && fabsf(all.top_z) < kLargestLogit && size <= Series<2>::kSize && simple ? 1 : 0;
}

/// Thread 0 after the second barrier: the offset, the heads and the series of pass 2; block 0 keeps them.
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD void finish_frame(Ctx& ctx, const BatchView& batch, FastRow& record) {
  FastShared& shared = ctx.shared();
  Frame& frame = shared.frame;
  FastRow row{};
  row.c = shared.c;
  for (unsigned i = 0; i < 6; ++i) row.sums[i] = shared.total[i];
  row.top_z = frame.top_z;
  double low = static_cast<double>(shared.low) - row.c, high = static_cast<double>(shared.high) - row.c;
  if (Dtype == DRIFTGATE_F32) {
    low = high = 0;  // of the pivot's own column
    for (unsigned i = 0; i < ctx.blocks(); ++i) {
      low = std::fmin(low, static_cast<double>(shared.peer_low[i]));
      high = std::fmax(high, static_cast<double>(shared.peer_high[i]));
    }
  }
  row.low = low, row.high = high;
  const PassSums sums = pass_of(row, batch.columns);
  row.offset = offset_of(sums);
  frame.offset = static_cast<float>(row.offset);
  for (unsigned head = 0; head < kHeads; ++head) {
    row.least_p[head] = least_of_head(sums, head);
    frame.least_e[head] = static_cast<float>(row.least_p[head] * sums.l_p);
  }
  const double size = std::fmax(high + row.offset, -(low + row.offset));
  frame.level = row.level = size <= 0.0625 ? 0 : size <= 0.25 ? 1 : 2;
  if (!(size <= 1.0)) frame.fast = 0;
  row.outcome = frame.fast != 0 ? Outcome::measured : Outcome::wide;
  if (ctx.rank() == 0) record = row;
}

/// Copies what the cluster's blocks found and added up, and adds the sums in rank order.
template <class Ctx>
DRIFTGATE_HD void gather_located(Ctx& ctx) {
  if (ctx.thread() < ctx.blocks()) ctx.shared().peers[ctx.thread()] = ctx.peer(ctx.thread()).located;
  ctx.sync();
}
template <class Ctx>
DRIFTGATE_HD void gather_sums(Ctx& ctx) {
  FastShared& shared = ctx.shared();
  for (unsigned i = ctx.thread(); i < ctx.blocks() * kFirstSums; i += ctx.threads()) {
    shared.peer_sums[i / kFirstSums][i % kFirstSums] = ctx.peer(i / kFirstSums).sums[i % kFirstSums];
  }
  if (ctx.thread() < ctx.blocks()) {
    shared.peer_low[ctx.thread()] = ctx.peer(ctx.thread()).block_low;
    shared.peer_high[ctx.thread()] = ctx.peer(ctx.thread()).block_high;
  }
  ctx.sync();
  if (ctx.thread() < kFirstSums) {
    double sum = 0;
    for (unsigned i = 0; i < ctx.blocks(); ++i) sum += shared.peer_sums[i][ctx.thread()];
    shared.total[ctx.thread()] = sum;
  }
  ctx.sync();
}

/// All threads of the cluster together. Two barriers of the cluster for each row: `located` is read between
/// them and written before the next row's first; `sums` is read after the second and written after the next
/// row's first.
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD void measure_row(Ctx& ctx, const BatchView& batch, const BatchScratch& scratch,
                              std::uint64_t row, std::uint32_t cache) {
  FastShared& shared = ctx.shared();
  const Slice slice = slice_of<Dtype>(ctx, batch, row, cache);
  const std::uint64_t part = row * ctx.blocks() + ctx.rank();
  locate<Dtype>(ctx, slice, scratch.lists + part * 2 * scratch.list_size, scratch.list_size);
  ctx.sync_cluster();
  gather_located(ctx);
  if (ctx.thread() == 0) make_frame<Dtype>(ctx);
  ctx.sync();
  {
    const Frame frame = shared.frame;
    if (frame.fast != 0 && frame.level == 0) first_sums<Dtype, 0>(ctx, slice, frame);
    if (frame.fast != 0 && frame.level == 1) first_sums<Dtype, 1>(ctx, slice, frame);
    if (frame.fast != 0 && frame.level == 2) first_sums<Dtype, 2>(ctx, slice, frame);
  }
  ctx.sync_cluster();
  gather_sums(ctx);
  if (ctx.thread() == 0) finish_frame<Dtype>(ctx, batch, scratch.rows[row]);
  ctx.sync();
  const Frame frame = shared.frame;
  FastPart& out = scratch.parts[part];
  if (frame.fast != 0 && frame.level == 0) second_sums<Dtype, 0>(ctx, slice, frame, out);
  if (frame.fast != 0 && frame.level == 1) second_sums<Dtype, 1>(ctx, slice, frame, out);
  if (frame.fast != 0 && frame.level == 2) second_sums<Dtype, 2>(ctx, slice, frame, out);
  ctx.sync();  // the warps' sums are read: the next row may write them
}

}  // namespace driftgate::gpu::cuda
