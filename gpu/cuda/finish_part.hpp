#pragma once

#include "gpu/cuda/finish.hpp"

/// Writes the results for a part of a row (gpu/backend/backend_shard.h), with one thread for each row, after
/// the row kernels.
namespace driftgate::gpu::cuda {

DRIFTGATE_HD driftgate_pass1 packed(const PassSums& s) {
  return {s.m_p, s.l_p, s.s, s.g,         s.a_p,       s.m_q, s.l_q,        s.t,
          s.h,   s.a_q, s.c, s.min_drift, s.max_drift, s.n,   s.mean_drift, s.m2};
}

/// The result of pass 1 without its sums and counts: only the logits of the target token, if its column
/// belongs to the part.
DRIFTGATE_HD driftgate_shard_partial blank_partial(const BatchView& batch, const ShardView& shard,
                                                   std::uint64_t index) {
  driftgate_shard_partial out{};
  if (batch.tokens == nullptr) return out;
  const std::int64_t column = batch.tokens[index] - static_cast<std::int64_t>(shard.first_column);
  if (column < 0 || column >= static_cast<std::int64_t>(batch.columns)) return out;
  const auto at = static_cast<std::uint64_t>(column);
  const unsigned char* train = batch.train + index * batch.train_stride_bytes;
  const unsigned char* inf = batch.inf + index * batch.inf_stride_bytes;
  out.has_token = 1;
  out.token_train = static_cast<double>(load_element(train, batch.train_dtype, at));
  out.token_inf = static_cast<double>(load_element(inf, batch.inf_dtype, at));
  return out;
}

/// Finishes pass 1 after the float32 kernel. Returns false when the part is left to the float64 form.
DRIFTGATE_HD bool finish_fast_part(const BatchView& batch, const BatchScratch& scratch, std::uint64_t index) {
  constexpr double kWellCentred = 900;
  FastRow& fast = scratch.rows[index];
  if (fast.outcome != Outcome::measured) return false;
  const PassSums pass = pass_of(fast);
  const double mean = fast.sums[4] / pass.n;
  if (mean * mean * pass.n > kWellCentred * pass.m2) {
    fast.outcome = Outcome::wide;
    return false;
  }
  driftgate_shard_partial out = blank_partial(batch, scratch.shard, index);
  out.sums = packed(pass);
  const std::uint32_t size = scratch.list_size;
  out.top_train = out.top_inf = size;
  TopEntry list[kMaxFastTopK];
  for (unsigned kernel = 0; kernel < 2; ++kernel) {
    merge_lists(scratch.lists + index * scratch.cluster * 2 * size, scratch.cluster, kernel, size, list);
    driftgate_top_entry* to = scratch.shard.top + (index * 2 + kernel) * size;
    for (std::uint32_t i = 0; i < size; ++i) {
      to[i] = {static_cast<double>(list[i].value), scratch.shard.first_column + list[i].id, 0};
    }
  }
  scratch.shard.partials[index] = out;
  return true;
}

/// Finishes pass 1 after the float64 form.
DRIFTGATE_HD void finish_wide_partial(const BatchView& batch, const BatchScratch& scratch,
                                      std::uint64_t index) {
  const RowSums& row = scratch.wide[index];
  driftgate_shard_partial out = blank_partial(batch, scratch.shard, index);
  out.nonfinite = row.nonfinite;
  if (row.nonfinite == 0 && row.top.entries > 0) {
    out.sums = packed(row.pass);
    const std::uint32_t listed = scratch.list_size < row.top.entries ? scratch.list_size : row.top.entries;
    out.top_train = out.top_inf = listed;
  }
  scratch.shard.partials[index] = out;
}

/// Finishes pass 2 after both kernels.
DRIFTGATE_HD void finish_terms(const BatchScratch& scratch, std::uint64_t index) {
  const driftgate_shard_row& merged = scratch.shard.merged[index];
  driftgate_shard_terms out{};
  const bool fast = scratch.fast && scratch.rows[index].outcome == Outcome::measured;
  if (merged.skip == 0) {
    double ignored = 0;
    const FastRow* row = fast ? scratch.rows + index : nullptr;
    const TermSums terms =
        fast ? terms_of_parts(*row, scratch.parts + index * scratch.cluster, scratch.cluster,
                              static_cast<double>(row->top_z) - merged.lse, ignored)
             : scratch.wide[index].terms;
    out.kl_train_inf = terms.kl_train_inf, out.kl_inf_train = terms.kl_inf_train;
    out.tv = terms.tv, out.js = terms.js;
    out.hellinger2 = terms.hellinger2, out.chi2 = terms.chi2;
    for (unsigned i = 0; i < kHeads; ++i) {
      const HeadSums& head = terms.heads[i];
      out.heads[i] = {head.min_d, head.max_d, head.tail_p, head.tail_q};
    }
    if (fast && merged.exact != 0) out.exact = packed(scratch.wide[index].pass);
  }
  scratch.shard.terms[index] = out;
}

}  // namespace driftgate::gpu::cuda
