/* Parts of rows: a vocabulary split over several engines (docs/design/measurement.md, "Rows split over
 * several engines"). Each engine holds the columns [first_column, first_column + batch.vocabulary) of every
 * row. It writes the partial sums of pass 1; the caller exchanges those of all engines and merges them in
 * rank order; the engine then writes its terms of pass 2 under the merged sums; the caller adds the terms of
 * all engines in rank order. Included by gpu/backend/backend.h. */
#ifndef DRIFTGATE_GPU_BACKEND_SHARD_H
#define DRIFTGATE_GPU_BACKEND_SHARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Batches that may be between their two passes at a time. */
#define DRIFTGATE_SHARD_SLOTS 2u
/** Head sets of the bound chain's link 2. */
#define DRIFTGATE_HEADS 2

/** How a batch is a part of rows. In that batch `vocabulary` is the number of columns held, `data` points to
 *  the first of them in the first row, the strides are those of whole rows, and tokens are in
 *  [0, total_columns). */
typedef struct driftgate_shard {
  uint32_t struct_size;
  uint32_t first_column;
  uint32_t total_columns;
  /** Less than DRIFTGATE_SHARD_SLOTS. Pass 2 of a slot follows its pass 1 and gets the same batch, whose
   *  logits have not changed, so that an engine may keep what it likes of the batch in between. A pass 1
   *  that no pass 2 followed is forgotten when the slot is used again. */
  uint32_t slot;
} driftgate_shard;

/** Sums of pass 1 over some columns that are not masked, with d' = (z - y) - c (docs/design/measurement.md,
 *  "Pass 1: sums about a pivot"). m_q may be any reference within e^1 of the largest y. With n = 0 the rest
 *  means nothing. */
typedef struct driftgate_pass1 {
  double m_p, l_p, s, g, a_p; /**< largest z, sums of e = e^(z - m_p): e, e*d', e*phi(-d'), e*(z - m_p) */
  double m_q, l_q, t, h, a_q; /**< sums of f = e^(y - m_q): f, f*d', f*phi(d'), f*(y - m_q); t + h must be
                                 right, each alone need not */
  double c;                   /**< pivot: the drift at a largest z, or about the mean drift */
  double min_drift, max_drift;
  double n, mean_drift, m2; /**< columns, mean of z - y and its centred sum of squares */
} driftgate_pass1;

/** Powers of d' that are summed over a part that drifts little, and those beside z - m_p. */
#define DRIFTGATE_MOMENT_POWERS 13
#define DRIFTGATE_MOMENT_CROSS 7

/** Sums of powers over the columns of a part, about the same c and in the same units e = e^(z - m_p) as its
 *  sums of pass 1. From them follow every divergence but tv, also of a row all of whose parts have them. One
 *  column stands alone beside them: if any has most of the part's mass, it is that. */
typedef struct driftgate_moments {
  double powers[DRIFTGATE_MOMENT_POWERS]; /**< of e*d'^k, without that column */
  double cross[DRIFTGATE_MOMENT_CROSS];   /**< of e*(z - m_p)*d'^k, without it */
  double alone_e, alone_drift, alone_x;   /**< its e, d' and z - m_p */
  double bulk;                            /**< the largest sum of terms that cancelled in powers[2] */
  uint32_t form; /**< 0: the part has none; else 1, 2, 3: powers up to 5, 8, 12, and up to 3, 4, 6 beside z */
  uint32_t reserved;
} driftgate_moments;

/** One of a row's largest logits, before the temperature. */
typedef struct driftgate_top_entry {
  double value;
  uint32_t id; /**< column of the whole row */
  uint32_t reserved;
} driftgate_top_entry;

/** What pass 1 says of one row. */
typedef struct driftgate_shard_partial {
  driftgate_pass1 sums; /**< whether there are moments or not: parts of both kinds merge by them */
  driftgate_moments moments;
  double token_train, token_inf; /**< the target token's logits before the temperature, if `has_token` */
  uint64_t nonfinite;            /**< when greater than 0, `sums` and the top entries mean nothing */
  uint32_t has_token;            /**< 1: the target token is one of the columns held */
  uint32_t top_train, top_inf;   /**< top entries written for each kernel */
  uint32_t reserved;
} driftgate_shard_partial;

/** What pass 2 is told of one row: the sums over all engines and what follows from them. */
typedef struct driftgate_shard_row {
  driftgate_pass1 sums;
  double offset;                   /**< d = ((z - y) - sums.c) + offset */
  double lse;                      /**< p = e^(z - lse) */
  double least_p[DRIFTGATE_HEADS]; /**< a column is in the head set when its p is greater */
  uint32_t skip;                   /**< 1: the row has no figures; its terms are not read */
  /** 1: `exact` of the terms is wanted, because the log-ratio of the target token is small beside the row's
   *  drift, or the entropy of K_inf beside log l_q. */
  uint32_t exact;
  /** 1: every part that has columns left has moments, and those of the row hold: of the terms only tv and
   *  heads are read. */
  uint32_t by_moments;
  uint32_t reserved;
} driftgate_shard_row;

/** A head set over the columns held: span of d inside (min_d > max_d when there are none), mass outside. */
typedef struct driftgate_head {
  double min_d, max_d;
  double tail_p, tail_q;
} driftgate_head;

/** Additive terms of pass 2 of one row. */
typedef struct driftgate_shard_terms {
  double kl_train_inf, kl_inf_train, tv, js, hellinger2, chi2;
  driftgate_head heads[DRIFTGATE_HEADS];
  /** The sums of pass 1 again, with every exponential and sum in float64, where the row asked for them and
   *  those of pass 1 were not already so; else n = 0. */
  driftgate_pass1 exact;
} driftgate_shard_terms;

#ifdef __cplusplus
}
#endif

#endif
