#pragma once

#include "gpu/cuda/records.hpp"
#include "gpu/cuda/reduce.hpp"

/// Shared memory of a block of the float32 kernel, and the part of a row that the block works on.
namespace driftgate::gpu::cuda {

constexpr unsigned kFastThreads = 256;
constexpr unsigned kMaxWarps = kFastThreads / 32;
constexpr unsigned kGroups = 32;          ///< of threads, each with its own maximum
constexpr unsigned kMaxCandidates = 128;  ///< for a block's top list; more (ties) make the row take float64
constexpr unsigned kFirstSums = 8, kCoreSums = 16, kSecondSums = 16;
constexpr unsigned kSharedSums = 16;  ///< of pass 1, whichever

struct Candidate {
  float value, other;  ///< the logit, and the other kernel's of the same entry
  std::uint32_t id;
};

/// What a block has found in its columns.
struct Located {
  float top_z, top_y;  ///< the largest z (lowest id of several) and y of that entry
  float low, high;     ///< range of z − y; `high` is NaN or infinite if a logit is
  std::uint32_t top_id;
  std::uint32_t masked;   ///< columns that are -Inf in both kernels
  std::uint32_t crowded;  ///< more than kMaxCandidates ties
};

/// Parameters of a row for passes 1 and 2; the same in every block of the cluster.
struct Frame {
  float top_z;
  float pivot, pivot_low;  ///< c, exactly their sum where float32 differences are rounded
  float offset;
  float least_e[kHeads];
  std::uint32_t top_id;
  std::uint32_t level;
  std::uint32_t masked;  ///< columns of the row
  std::uint32_t fast;    ///< 0: the row takes the float64 form
  std::uint32_t second;  ///< 0: pass 1 sufficed
};

struct FastShared {
  Located located;              ///< read by the cluster between its first and second barrier of a row
  double sums[kSharedSums];     ///< read by the cluster after its second barrier
  float block_low, block_high;  ///< likewise: range of d' of float32 logits
  Located peers[kMaxCluster];   ///< copies of the above of every block, in rank order
  double peer_sums[kMaxCluster][kSharedSums];
  float peer_low[kMaxCluster], peer_high[kMaxCluster];
  double total[kSharedSums];
  double c;
  float low, high;  ///< range of z − y over the row
  Frame frame;
  float warp_values[kMaxWarps][kSecondSums];
  float warp_low[kMaxWarps][kHeads], warp_high[kMaxWarps][kHeads];
  float groups[2][kGroups];
  float thresholds[2];
  std::uint32_t counts[2];
  std::uint32_t masked;
  Candidate candidates[2][kMaxCandidates];
};

/// The columns of one block: whole vectors [first, first + count), of which the first `cached` are kept in
/// shared memory, and for the last block up to seven single columns at the end of the row.
struct Slice {
  const Vector* train;  ///< of the row, 16-byte aligned
  const Vector* inf;
  std::uint32_t first, count, cached;
  std::uint32_t tail_begin, tail_count;  ///< columns
};

template <std::uint32_t Dtype, class Ctx>
DRIFTGATE_HD Slice slice_of(const Ctx& ctx, const BatchView& batch, std::uint64_t row, std::uint32_t cache) {
  const std::uint32_t vectors = batch.columns / kLanes<Dtype>;
  const auto begin = static_cast<std::uint32_t>(std::uint64_t{vectors} * ctx.rank() / ctx.blocks());
  const auto end = static_cast<std::uint32_t>(std::uint64_t{vectors} * (ctx.rank() + 1) / ctx.blocks());
  Slice out;
  out.train = reinterpret_cast<const Vector*>(batch.train + row * batch.train_stride_bytes);
  out.inf = reinterpret_cast<const Vector*>(batch.inf + row * batch.inf_stride_bytes);
  out.first = begin;
  out.count = end - begin;
  out.cached = out.count < cache ? out.count : cache;
  out.tail_begin = vectors * kLanes<Dtype>;
  out.tail_count = ctx.rank() + 1 == ctx.blocks() ? batch.columns - out.tail_begin : 0;
  return out;
}

/// Vector `i` of the slice, from shared or device memory.
template <class Ctx>
DRIFTGATE_HD void load_pair(Ctx& ctx, const Slice& slice, std::uint32_t i, Vector& train, Vector& inf) {
  if (i < slice.cached) {
    train = ctx.cache_train()[i];
    inf = ctx.cache_inf()[i];
  } else {
    train = slice.train[slice.first + i];
    inf = slice.inf[slice.first + i];
  }
}

/// Calls `visit(z, y, id)` for the thread's single column at the end of the row, if it has one.
template <std::uint32_t Dtype, class Ctx, class Visit>
DRIFTGATE_HD void visit_tail(Ctx& ctx, const Slice& slice, Visit&& visit) {
  if (ctx.thread() >= slice.tail_count) return;
  const std::uint32_t id = slice.tail_begin + ctx.thread();
  visit(load_element(reinterpret_cast<const unsigned char*>(slice.train), Dtype, id),
        load_element(reinterpret_cast<const unsigned char*>(slice.inf), Dtype, id), id);
}

}  // namespace driftgate::gpu::cuda
