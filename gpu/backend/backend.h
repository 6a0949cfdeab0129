/* The interface between driftgate and its backends, which evaluate rows: the CPU engine in this tree and
 * the CUDA plugin library, both called through a table of C functions. Descriptors are plain structs,
 * buffers belong to the caller, and every call returns a status and may write a message; no C++ type,
 * exception or ownership crosses the interface. Later versions only append to the table: `struct_size`
 * tells how much of it a backend fills in. The figures and their error bounds are defined in
 * docs/design/measurement.md. */
#ifndef DRIFTGATE_GPU_BACKEND_H
#define DRIFTGATE_GPU_BACKEND_H

#include <stdint.h>

#include "gpu/backend/backend_hidden.h"
#include "gpu/backend/backend_shard.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DRIFTGATE_BACKEND_VERSION 5u
/** Name of the only symbol that a plugin library exports; its type is driftgate_backend_fn. */
#define DRIFTGATE_BACKEND_SYMBOL "driftgate_backend_table"
#define DRIFTGATE_ROW_VALUES 18

/** Status of a call. */
enum { DRIFTGATE_OK = 0, DRIFTGATE_INVALID = 1, DRIFTGATE_UNAVAILABLE = 2, DRIFTGATE_FAILED = 3 };

/** Element types of logits. */
enum { DRIFTGATE_F32 = 0, DRIFTGATE_F16 = 1, DRIFTGATE_BF16 = 2 };

/** Status of one row. Only rows with DRIFTGATE_ROW_OK have all their figures. */
enum {
  DRIFTGATE_ROW_OK = 0,
  DRIFTGATE_ROW_NONFINITE = 1,    /**< NaN or infinite logits: every figure is NaN but `nonfinite` */
  DRIFTGATE_ROW_ALL_MASKED = 2,   /**< -Inf everywhere in both kernels: no distribution */
  DRIFTGATE_ROW_TOKEN_MASKED = 3, /**< the target token is -Inf in both kernels */
  DRIFTGATE_ROW_NOT_MEASURED = 4 /**< hidden_measure only: the engine cannot keep the permitted error for this
                                      row; measure it with another engine */
};

/** Which figures of a row to compute; the others are NaN. CORE: the figures that one reading of the row
 *  yields, which are logit_max_abs, logit_span, kl_train_inf, kl_inf_train, top1_flip, nonfinite, the
 *  log-probabilities of the target token, top_train and top_inf. */
enum { DRIFTGATE_METRICS_ALL = 0, DRIFTGATE_METRICS_CORE = 1 };

typedef struct driftgate_config {
  uint32_t struct_size;
  int32_t device;   /**< index of the device; ignored by the CPU */
  uint32_t threads; /**< CPU threads, at least 1 */
  uint32_t top_k;   /**< k of topk_overlap, 1 to 1024 */
  uint32_t metrics; /**< DRIFTGATE_METRICS_ALL or DRIFTGATE_METRICS_CORE */
} driftgate_config;

/** Rows of logits or hidden states, of any alignment; the batch gives their number and width. */
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

/** Like driftgate_batch, for rows of hidden states; tokens must be less than the vocabulary of the heads. */
typedef struct driftgate_hidden_batch {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t rows;
  driftgate_logits train;
  driftgate_logits inf;
  const int64_t* tokens;
} driftgate_hidden_batch;

/** Figures of one row, in the order of schema::Metric; NaN where there is none. */
typedef struct driftgate_row {
  double values[DRIFTGATE_ROW_VALUES];
  uint32_t status;
  uint32_t reserved;
  /** An upper bound of tv: the smallest of tanh(span/4) and of m + (1 - m)*tanh(s_H/4) over a few head
   *  sets H, where m = max(p, q) of the mass outside H and s_H is the span inside it
   *  (docs/design/measurement.md, "Link 2: head and tail"). NaN where there is no tv. */
  double head_tail_tv;
  /** Probability of each kernel's most likely token; NaN where there is none. */
  double top_train;
  double top_inf;
} driftgate_row;

/** When the status is not DRIFTGATE_OK, `message` receives at most `message_bytes` bytes, including the
 *  terminating NUL. */
typedef struct driftgate_backend {
  uint32_t struct_size;
  uint32_t version; /**< DRIFTGATE_BACKEND_VERSION */
  const char* name; /**< "cpu", "cuda" */
  int32_t (*open)(const driftgate_config* config, void** engine, char* message, uint64_t message_bytes);
  /** Writes one line about the device and the kernel, for reports. */
  int32_t (*describe)(void* engine, char* text, uint64_t text_bytes);
  /** Writes batch->rows results. The same batch gives the same bytes for any number of threads. One call
   *  at a time for each engine. */
  int32_t (*measure)(void* engine, const driftgate_batch* batch, driftgate_row* results, char* message,
                     uint64_t message_bytes);
  void (*close)(void* engine);
  /** Pass 1 over parts of rows (gpu/backend/backend_shard.h). Writes batch->rows partial sums and, for
   *  each row, the largest logits of K_train and then of K_inf, by descending value, then ascending id.
   *  There is room for max(top_k, 2) entries of each; the partial sums tell how many are written. Not
   *  supported: NULL, or struct_size ends before this member. */
  int32_t (*shard_pass1)(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         driftgate_shard_partial* partials, driftgate_top_entry* top, char* message,
                         uint64_t message_bytes);
  /** Pass 2 of the batch of the latest pass 1 in shard->slot. Writes batch->rows terms. */
  int32_t (*shard_pass2)(void* engine, const driftgate_batch* batch, const driftgate_shard* shard,
                         const driftgate_shard_row* rows, driftgate_shard_terms* terms, char* message,
                         uint64_t message_bytes);
  /** Sets the heads for the following calls of hidden_measure, in place of earlier ones. Nothing that
   *  `heads` points to is read after the call. Not supported: NULL, or struct_size ends before this
   *  member. */
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
