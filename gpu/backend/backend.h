/* The interface between driftgate and the programs that evaluate rows: the CPU engine in this tree and
 * the CUDA plugin library, through one table of C functions. Descriptors are plain, buffers belong to the
 * caller, every call returns a status and may write a message; no C++ type, exception or ownership
 * crosses. A table grows at its end: `struct_size` tells how much of it a backend filled in. */
#ifndef DRIFTGATE_GPU_BACKEND_H
#define DRIFTGATE_GPU_BACKEND_H

#include <stdint.h>

#include "gpu/backend/backend_hidden.h"
#include "gpu/backend/backend_shard.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DRIFTGATE_BACKEND_VERSION 5u
/** Name of the one exported symbol of a plugin library; its type is driftgate_backend_fn. */
#define DRIFTGATE_BACKEND_SYMBOL "driftgate_backend_table"
#define DRIFTGATE_ROW_VALUES 18

/** Status of a call. */
enum { DRIFTGATE_OK = 0, DRIFTGATE_INVALID = 1, DRIFTGATE_UNAVAILABLE = 2, DRIFTGATE_FAILED = 3 };

/** Element types of logits. */
enum { DRIFTGATE_F32 = 0, DRIFTGATE_F16 = 1, DRIFTGATE_BF16 = 2 };

/** What became of one row. Only DRIFTGATE_ROW_OK rows have all their figures. */
enum {
  DRIFTGATE_ROW_OK = 0,
  DRIFTGATE_ROW_NONFINITE = 1,    /**< NaN or infinite logits: every figure is NaN but `nonfinite` */
  DRIFTGATE_ROW_ALL_MASKED = 2,   /**< -Inf everywhere in both kernels: no distribution */
  DRIFTGATE_ROW_TOKEN_MASKED = 3, /**< the target token is -Inf in both kernels */
  DRIFTGATE_ROW_NOT_MEASURED = 4  /**< of hidden_measure alone: the engine cannot have this row's figures at
                                    the  accuracy that is asked for; measure it another way */
};

/** Which figures of a row are wanted. The others are NaN. CORE: logit_max_abs, logit_span, kl_train_inf,
 *  kl_inf_train, top1_flip, nonfinite, the target token's log-probabilities, top_train and top_inf: what one
 *  reading of the row yields. */
enum { DRIFTGATE_METRICS_ALL = 0, DRIFTGATE_METRICS_CORE = 1 };

typedef struct driftgate_config {
  uint32_t struct_size;
  int32_t device;   /**< index of the device; ignored by the CPU */
  uint32_t threads; /**< CPU threads, at least 1 */
  uint32_t top_k;   /**< k of topk_overlap, 1 to 1024 */
  uint32_t metrics; /**< DRIFTGATE_METRICS_ALL or DRIFTGATE_METRICS_CORE */
} driftgate_config;

/** `rows` rows of `vocabulary` logits; any alignment. */
typedef struct driftgate_logits {
  const void* data;
  uint64_t row_stride_bytes;
  uint32_t dtype;
  uint32_t reserved;
} driftgate_logits;

typedef struct driftgate_batch {
  uint32_t struct_size;
  uint32_t vocabulary;
  uint64_t rows;
  driftgate_logits train;
  driftgate_logits inf;
  const int64_t* tokens; /**< target token of each row, in [0, vocabulary), or NULL */
  double temperature;    /**< logits are divided by it; greater than 0 */
} driftgate_batch;

/** `rows` rows of hidden states; `tokens` as above, less than the vocabulary of the heads. */
typedef struct driftgate_hidden_batch {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t rows;
  driftgate_logits train;
  driftgate_logits inf;
  const int64_t* tokens;
} driftgate_hidden_batch;

/** Figures of a row in the order of schema::Metric; NaN where there is none. */
typedef struct driftgate_row {
  double values[DRIFTGATE_ROW_VALUES];
  uint32_t status;
  uint32_t reserved;
  /** An upper bound of tv: the least of tanh(span/4) and m + (1 - m)*tanh(s_H/4) over a few head sets H, with
   *  m = max(p, q) of the entries outside H and s_H the span inside it. NaN where there is no tv. */
  double head_tail_tv;
  /** Probability of each kernel's most likely token; NaN where there is none. */
  double top_train;
  double top_inf;
} driftgate_row;

/** `message` receives at most `message_bytes` bytes, terminated, when the status is not DRIFTGATE_OK. */
typedef struct driftgate_backend {
  uint32_t struct_size;
  uint32_t version; /**< DRIFTGATE_BACKEND_VERSION */
  const char* name; /**< "cpu", "cuda" */
  int32_t (*open)(const driftgate_config* config, void** engine, char* message, uint64_t message_bytes);
  /** One line about device and code path, for reports. */
  int32_t (*describe)(void* engine, char* text, uint64_t text_bytes);
  /** Writes batch->rows results. The same batch gives the same bytes whatever `threads` is. One call at a
   *  time per engine. */
  int32_t (*measure)(void* engine, const driftgate_batch* batch, driftgate_row* results, char* message,
                     uint64_t message_bytes);
  void (*close)(void* engine);
  /** Pass 1 of a part of rows (gpu/backend/backend_shard.h). Writes batch->rows partials and, for each row, the
   * largest logits of K_train and then those of K_inf: max(top_k, 2) places each, of which the partial says
   * how many are written; value descending, then id ascending. Absent: NULL, or struct_size ends before it.
   */
  int32_t (*shard_pass1)(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         driftgate_shard_partial* partials, driftgate_top_entry* top, char* message,
                         uint64_t message_bytes);
  /** Pass 2 of the batch whose pass 1 was the last of shard->slot. Writes batch->rows terms. */
  int32_t (*shard_pass2)(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         const driftgate_shard_row* rows, driftgate_shard_terms* terms, char* message,
                         uint64_t message_bytes);
  /** Brings the heads of the hidden states that are measured next; those brought before are forgotten. Nothing
   *  that `heads` points to is read after the call. Absent: NULL, or struct_size ends before it. */
  int32_t (*hidden_open)(void* engine, const driftgate_hidden_heads* heads, char* message,
                         uint64_t message_bytes);
  /** Writes batch->rows results. The same rows in the same batch give the same bytes. */
  int32_t (*hidden_measure)(void* engine, const driftgate_hidden_batch* batch, driftgate_row* results,
                            char* message, uint64_t message_bytes);
} driftgate_backend;

typedef const driftgate_backend* (*driftgate_backend_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
