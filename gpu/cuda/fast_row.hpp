#pragma once

#include "gpu/cuda/fast_scan.hpp"
#include "gpu/cuda/fast_sums.hpp"
#include "gpu/cuda/pass_math.hpp"

/// The float32 kernel: one cluster of blocks measures a row, which it reads from device memory once. For rows
/// at temperature 1 with finite logits of one type and |d| ≤ 1; other rows are measured in float64
/// (wide_row.hpp), as are rows whose figures turn out to need it (finish.hpp). See
/// docs/design/measurement.md, "The divergences in floating point".
namespace driftgate::gpu::cuda {

constexpr float kLargestLogit = 1e30F;  ///< differences of logits must stay finite

/// Thread 0, after the first barrier of the cluster: determines maximum, pivot and series of the row.
template <std::uint32_t Dtype>
DRIFTGATE_HD_COLD void make_frame(FastShared& shared, unsigned blocks) {
  Located all = shared.peers[0];
  for (unsigned i = 1; i < blocks; ++i) {
    const Located& next = shared.peers[i];
    if (next.top_z > all.top_z) all.top_z = next.top_z, all.top_y = next.top_y, all.top_id = next.top_id;
    all.low = smaller(all.low, next.low);
    all.high = max_or_nan(all.high, next.high);
    all.masked += next.masked;
    all.crowded |= next.crowded;
  }
  Frame& frame = shared.frame;
  const double c = static_cast<double>(all.top_z) - static_cast<double>(all.top_y);
  shared.c = c;
  shared.low = all.low, shared.high = all.high;
  frame.top_z = all.top_z;
  frame.top_id = all.top_id;
  frame.masked = all.masked;
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

/// Thread 0, after the second barrier of the cluster: determines the offset, the head sets and the series of
/// pass 2, and stores them in `record` unless it is null.
template <std::uint32_t Dtype>
DRIFTGATE_HD_COLD void finish_frame(FastShared& shared, unsigned blocks, std::uint32_t columns, Mode mode,
                                    FastRow* record) {
  Frame& frame = shared.frame;
  FastRow row{};
  row.c = shared.c;
  row.unmasked = columns - frame.masked;
  if (mode == Mode::core) {
    frame.second = one_pass(shared.total, shared.total[10], shared.total[11], row) ? 0 : 1;
  } else {
    for (unsigned i = 0; i < 7; ++i) row.sums[i] = shared.total[i];
    frame.second = 1;
  }
  row.top_z = frame.top_z;
  double low = static_cast<double>(shared.low) - row.c, high = static_cast<double>(shared.high) - row.c;
  if (Dtype == DRIFTGATE_F32) {
    low = high = 0;  // of the pivot's own column
    for (unsigned i = 0; i < blocks; ++i) {
      low = std::fmin(low, static_cast<double>(shared.peer_low[i]));
      high = std::fmax(high, static_cast<double>(shared.peer_high[i]));
    }
  }
  row.low = low, row.high = high;
  const PassSums sums = pass_of(row);
  row.offset = offset_of(sums);
  frame.offset = static_cast<float>(row.offset);
  for (unsigned head = 0; head < kHeads; ++head) {
    row.least_p[head] = least_of_head(sums, head);
    frame.least_e[head] = static_cast<float>(row.least_p[head] * sums.l_p);
  }
  const double size = std::fmax(high + row.offset, -(low + row.offset));
  row.second = frame.second;
  frame.level = size <= 0.0625 ? 0 : size <= 0.25 ? 1 : 2;
  // The offset of a part is not that of the row, which pass 2 gets.
  if (mode != Mode::shard_first && !(size <= 1.0)) frame.fast = 0;
  row.outcome = frame.fast != 0 ? Outcome::measured : Outcome::wide;
  if (record != nullptr) *record = row;
}

/// Replaces finish_frame for pass 2 of a part of a row: d = d' + ((c − c of the row) + offset of the row).
DRIFTGATE_HD_COLD void adopt_frame(FastShared& shared, const driftgate_shard_row* merged, FastRow* record) {
  Frame& frame = shared.frame;
  FastRow row{};
  row.c = shared.c;
  row.top_z = frame.top_z;
  row.offset = (row.c - merged->sums.c) + merged->offset;
  frame.offset = static_cast<float>(row.offset);
  const double p_top = std::exp(static_cast<double>(frame.top_z) - merged->lse);
  for (unsigned head = 0; head < kHeads; ++head) {
    row.least_p[head] = merged->least_p[head];
    frame.least_e[head] = static_cast<float>(row.least_p[head] / p_top);
  }
  const double low = static_cast<double>(shared.low) - row.c, high = static_cast<double>(shared.high) - row.c;
  const double size = std::fmax(high + row.offset, -(low + row.offset));
  frame.level = size <= 0.0625 ? 0 : size <= 0.25 ? 1 : 2;
  if (!(size <= 1.0)) frame.fast = 0;
  frame.second = row.second = merged->skip == 0 ? 1 : 0;
  row.outcome = frame.fast != 0 ? Outcome::measured : Outcome::wide;
  if (record != nullptr) *record = row;
}

/// Copies the results of the blocks of the cluster, and adds the sums in rank order.
template <class Ctx>
DRIFTGATE_HD void gather_located(Ctx& ctx) {
  if (ctx.thread() < ctx.blocks()) ctx.shared().peers[ctx.thread()] = ctx.peer(ctx.thread()).located;
  ctx.sync();
}
template <class Ctx>
DRIFTGATE_HD void gather_sums(Ctx& ctx) {
  FastShared& shared = ctx.shared();
  for (unsigned i = ctx.thread(); i < ctx.blocks() * kSharedSums; i += ctx.threads()) {
    shared.peer_sums[i / kSharedSums][i % kSharedSums] = ctx.peer(i / kSharedSums).sums[i % kSharedSums];
  }
  if (ctx.thread() < ctx.blocks()) {
    shared.peer_low[ctx.thread()] = ctx.peer(ctx.thread()).block_low;
    shared.peer_high[ctx.thread()] = ctx.peer(ctx.thread()).block_high;
  }
  ctx.sync();
  if (ctx.thread() < kSharedSums) {
    double sum = 0;
    for (unsigned i = 0; i < ctx.blocks(); ++i) sum += shared.peer_sums[i][ctx.thread()];
    shared.total[ctx.thread()] = sum;
  }
  ctx.sync();
}

template <std::uint32_t Dtype, class Sums, class Ctx>
DRIFTGATE_HD void first_pass(Ctx& ctx, const Slice& slice, const Frame& frame) {
  if (frame.level == 0) first_sums<Dtype, 0, Sums>(ctx, slice, frame);
  if (frame.level == 1) first_sums<Dtype, 1, Sums>(ctx, slice, frame);
  if (frame.level == 2) first_sums<Dtype, 2, Sums>(ctx, slice, frame);
}
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD void second_pass(Ctx& ctx, const Slice& slice, const Frame& frame, bool after_first,
                              FastPart& out) {
  if (frame.level == 0) second_sums<Dtype, 0>(ctx, slice, frame, after_first, out);
  if (frame.level == 1) second_sums<Dtype, 1>(ctx, slice, frame, after_first, out);
  if (frame.level == 2) second_sums<Dtype, 2>(ctx, slice, frame, after_first, out);
}

/// Called by all threads of the cluster. Two barriers of the cluster for each row: `located` is read between
/// them and written before the first barrier of the next row; `sums` is read after the second and written
/// after the first barrier of the next row.
template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD void measure_row(Ctx& ctx, const BatchView& batch, const BatchScratch& scratch,
                              std::uint64_t row, std::uint32_t cache) {
  FastShared& shared = ctx.shared();
  const Slice slice = slice_of<Dtype>(ctx, batch, row, cache);
  const std::uint64_t part = row * ctx.blocks() + ctx.rank();
  locate<Dtype>(ctx, slice, scratch.lists + part * 2 * scratch.list_size, scratch.list_size);
  ctx.sync_cluster();
  gather_located(ctx);
  if (ctx.thread() == 0) make_frame<Dtype>(shared, ctx.blocks());
  ctx.sync();
  {
    const Frame frame = shared.frame;
    const Mode mode = frame.fast != 0 ? batch.mode : Mode::shard_second;  // which sums nothing here
    if (mode == Mode::all) first_pass<Dtype, FirstSums<false>>(ctx, slice, frame);
    if (mode == Mode::core) first_pass<Dtype, CoreSums>(ctx, slice, frame);
    if (mode == Mode::shard_first) first_pass<Dtype, FirstSums<true>>(ctx, slice, frame);
  }
  ctx.sync_cluster();
  gather_sums(ctx);
  if (ctx.thread() == 0) {
    FastRow* const record = ctx.rank() == 0 ? scratch.rows + row : nullptr;
    if (batch.mode == Mode::shard_second) {
      adopt_frame(shared, scratch.shard.merged + row, record);
    } else {
      finish_frame<Dtype>(shared, ctx.blocks(), batch.columns, batch.mode, record);
    }
  }
  ctx.sync();
  const Frame frame = shared.frame;
  const bool second = frame.fast != 0 && frame.second != 0 && batch.mode != Mode::shard_first;
  if (second) {
    second_pass<Dtype>(ctx, slice, frame, batch.mode != Mode::shard_second, scratch.parts[part]);
  }
  ctx.sync();  // the sums of the warps have been read, and the next row may write them
}

}  // namespace driftgate::gpu::cuda
