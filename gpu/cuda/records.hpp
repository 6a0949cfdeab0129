#pragma once

#include "gpu/cuda/arithmetic.hpp"

/// Records that the row kernels leave in device memory for the thread that computes the figures of a row.
namespace driftgate::gpu::cuda {

constexpr unsigned kMaxCluster = 16;   ///< blocks that share a row
constexpr unsigned kMaxFastTopK = 32;  ///< with longer lists every row takes the float64 form
constexpr unsigned kHeads = 2;

/// One of a row's largest logits, as stored.
struct TopEntry {
  float value;
  std::uint32_t id;
};

/// Sums of pass 1 over a row in float64 (docs/design/measurement.md, "Pass 1: sums about a pivot"), over
/// e^{z−m_p} and e^{y−m_q}, with pivot c and d' = (z − y) − c; the same sums as in the CPU engine.
struct PassSums {
  double m_p, l_p, s, g, a_p;  ///< Σe, Σe·d', Σe·φ(−d'), Σe·(z − m_p)
  double m_q, l_q, t, h, a_q;  ///< Σe, Σe·d', Σe·φ(d'),  Σe·(y − m_q)
  double c;
  double min_drift, max_drift;
  double n, mean_drift, m2;
};

/// Span and tail of the set {v: p_v > least_p}.
struct HeadSums {
  double least_p;
  double min_d, max_d;
  double tail_p, tail_q;
};

/// Pass 2: additive sums of non-negative terms.
struct TermSums {
  double kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2;
  HeadSums heads[kHeads];
};

/// Results from the top lists.
struct TopSummary {
  std::uint32_t train_id, inf_id;  ///< of the largest logits
  std::uint32_t overlap;           ///< ids in both top-k sets
  std::uint32_t entries;           ///< that are not masked
  double margin;                   ///< z_(1) − z_(2) before the temperature; +Inf with one entry
  double top_y;                    ///< the largest y before the temperature
};

/// The sums of one row in float64, whichever kernel computed them.
struct RowSums {
  PassSums pass;
  TermSums terms;
  TopSummary top;
  std::uint64_t nonfinite;
};

/// What the row kernels compute. The last two are the passes over a part of rows
/// (gpu/backend/backend_shard.h).
enum class Mode : std::uint32_t { all, core, shard_first, shard_second };

/// Result of the float32 kernel for a row.
enum class Outcome : std::uint32_t { measured, wide };

/// The sums of the float32 kernel over a whole row. The column with the largest z (the lowest id of several)
/// is not included: its e is 1 and its d' is 0.
struct FastRow {
  double c;  ///< z − y of that column
  double sums[7];  ///< Σe, Σe·d', Σe·φ(−d'), Σe·(z − m), Σd', Σd'², of parts Σf·(y − y of that column)
  double offset;  ///< o: log p − log q = d' + o
  double least_p[kHeads];
  double low, high;        ///< range of d'
  float top_z;             ///< the largest z
  std::uint32_t unmasked;  ///< columns that are not masked
  std::uint32_t second;    ///< 1: pass 2 was computed; 0: the divergences below are from one pass
  Outcome outcome;
  double kl_train_inf, kl_inf_train;
};

/// The share of one block in pass 2, in units of e.
struct FastPart {
  double moments[10];  ///< Σ e·d^k, k = 2 … 11
  double abs_change;   ///< Σ e·|expm1(−d)|
  double change_x;     ///< Σ e·expm1(−d)·(z − m)
  double tail_e[kHeads], tail_change[kHeads];
  float low[kHeads], high[kHeads];  ///< range of d inside the head
};

/// Batch data that the row kernels and the finishing kernel share.
struct BatchView {
  const unsigned char* train;
  const unsigned char* inf;
  std::uint64_t train_stride_bytes, inf_stride_bytes;
  std::uint32_t train_dtype, inf_dtype;
  std::uint32_t columns, top_k;
  std::uint64_t rows;
  const std::int64_t* tokens;  ///< or null
  double temperature;
  Mode mode;
};

/// Input and output besides the logits, for a batch of parts of rows.
struct ShardView {
  std::uint32_t first_column;
  driftgate_shard_partial* partials;  ///< written by pass 1
  driftgate_top_entry* top;           ///< by pass 1: rows × 2 kernels × list_size, in no order
  const driftgate_shard_row* merged;  ///< read by pass 2
  driftgate_shard_terms* terms;       ///< written by pass 2
};

/// Scratch in device memory for a batch.
struct BatchScratch {
  FastRow* rows;
  FastPart* parts;  ///< rows × cluster
  TopEntry* lists;  ///< rows × cluster × 2 kernels × list_size
  RowSums* wide;    ///< rows; written for those that take the float64 form
  ShardView shard;
  std::uint32_t cluster, list_size;
  bool fast;  ///< whether the float32 kernel ran; else every row takes the float64 form
};

}  // namespace driftgate::gpu::cuda
