/* Parts of rows, for a vocabulary that is split over several engines (docs/design/measurement.md, "Rows
 * split over several engines"). Each engine holds the columns [first_column, first_column +
 * batch.vocabulary) of every row. It writes the partial sums of pass 1; the caller exchanges those of all
 * engines and merges them in rank order; each engine then writes its terms of pass 2 for the merged sums;
 * the caller adds the terms of all engines in rank order. Included by gpu/backend/backend.h. */
#ifndef DRIFTGATE_GPU_BACKEND_SHARD_H
#define DRIFTGATE_GPU_BACKEND_SHARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Number of batches that may be between their two passes at the same time. */
#define DRIFTGATE_SHARD_SLOTS 2u
/** Number of head sets in link 2 of the bound chain (docs/design/measurement.md, "Link 2: head and
 *  tail"). */
#define DRIFTGATE_HEADS 2

/** Describes a batch of parts of rows. In such a batch `vocabulary` is the number of columns of the part,
 *  `data` points to the first of them in the first row, strides are those of whole rows, and tokens are
 *  in [0, total_columns). */
typedef struct driftgate_shard {
  uint32_t struct_size;
  uint32_t first_column;
  uint32_t total_columns;
  /** Less than DRIFTGATE_SHARD_SLOTS. Pass 2 of a slot follows pass 1 of the same slot with the same,
   *  unchanged batch, so that an engine may keep intermediate results. A pass 1 without a pass 2 is
   *  discarded when the slot is used again. */
  uint32_t slot;
} driftgate_shard;

/** Sums of pass 1 over columns that are not masked, with d' = (z - y) - c (docs/design/measurement.md,
 *  "Pass 1: sums about a pivot"). m_q may be any reference within 1 of the largest y. With n = 0 all
 *  other members are undefined. */
typedef struct driftgate_pass1 {
  double m_p, l_p, s, g, a_p; /**< largest z, sums of e = e^(z - m_p): e, e*d', e*phi(-d'), e*(z - m_p) */
  double m_q, l_q, t, h, a_q; /**< sums of f = e^(y - m_q): f, f*d', f*phi(d'), f*(y - m_q); only t + h
                                 has to be exact, not t and h alone */
  double c;                   /**< pivot: the drift at a largest z, or approximately the mean drift */
  double min_drift, max_drift;
  double n, mean_drift, m2; /**< number of columns, mean of z - y and its centred sum of squares */
} driftgate_pass1;

/** Number of powers of d' that are summed over a part with small drifts, and number of those multiplied
 *  by z - m_p (gpu/cpu/README.md, "Moments"). */
#define DRIFTGATE_MOMENT_POWERS 13
#define DRIFTGATE_MOMENT_CROSS 7

/** Sums of powers over the columns of a part, about the same c and in the same units e = e^(z - m_p) as
 *  its sums of pass 1. Every divergence but tv follows from them, and from those of all parts of a row
 *  together. One column is kept apart from the sums: a column that has most of the mass of the part, if
 *  there is one. */
typedef struct driftgate_moments {
  double powers[DRIFTGATE_MOMENT_POWERS]; /**< of e*d'^k, without the column kept apart */
  double cross[DRIFTGATE_MOMENT_CROSS];   /**< of e*(z - m_p)*d'^k, without it */
  double alone_e, alone_drift, alone_x;   /**< e, d' and z - m_p of the column kept apart */
  double bulk;                            /**< the largest sum of terms that cancelled in powers[2] */
  uint32_t form; /**< 0: the part has no moments; 1, 2, 3: powers up to 5, 8, 12, and cross up to 3, 4, 6 */
  uint32_t reserved;
} driftgate_moments;

/** One of a row's largest logits, before the temperature. */
typedef struct driftgate_top_entry {
  double value;
  uint32_t id; /**< column of the whole row */
  uint32_t reserved;
} driftgate_top_entry;

/** Result of pass 1 for one row. */
typedef struct driftgate_shard_partial {
  driftgate_pass1 sums; /**< always present, so that parts with and without moments can be merged */
  driftgate_moments moments;
  double token_train, token_inf; /**< the target token's logits before the temperature, if `has_token` */
  uint64_t nonfinite;            /**< when greater than 0, `sums` and the top entries are undefined */
  uint32_t has_token;            /**< 1: the target token is one of the columns held */
  uint32_t top_train, top_inf;   /**< top entries written for each kernel */
  uint32_t reserved;
} driftgate_shard_partial;

/** Input of pass 2 for one row: the sums over all engines and what follows from them. */
typedef struct driftgate_shard_row {
  driftgate_pass1 sums;
  double offset;                   /**< d = ((z - y) - sums.c) + offset */
  double lse;                      /**< p = e^(z - lse) */
  double least_p[DRIFTGATE_HEADS]; /**< a column is in the head set when its p is greater */
  uint32_t skip;                   /**< 1: the row has no figures, and its terms are ignored */
  /** 1: `exact` of the terms is needed, because the log-ratio of the target token is small compared with
   *  the drift of the row, or the entropy of K_inf compared with log l_q. */
  uint32_t exact;
  /** 1: every part with unmasked columns has moments, and those of the row are accurate: only tv and
   *  heads of the terms are read. */
  uint32_t by_moments;
  uint32_t reserved;
} driftgate_shard_row;

/** A head set over the columns of the part: span of d inside (min_d > max_d when it is empty), mass
 *  outside. */
typedef struct driftgate_head {
  double min_d, max_d;
  double tail_p, tail_q;
} driftgate_head;

/** Additive terms of pass 2 of one row. */
typedef struct driftgate_shard_terms {
  double kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2;
  driftgate_head heads[DRIFTGATE_HEADS];
  /** The sums of pass 1 again, with every exponential and sum in float64; n = 0 where they were not
   *  requested or pass 1 was already in float64. */
  driftgate_pass1 exact;
} driftgate_shard_terms;

#ifdef __cplusplus
}
#endif

#endif
