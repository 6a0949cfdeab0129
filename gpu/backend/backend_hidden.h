/* Rows of hidden states (docs/design/measurement.md, "Hidden states"). The engine computes their logits,
 * x = scale*(W*h + bias), then the soft-cap, then divided by the temperature, and never stores them. The
 * heads are set once; batches of rows follow. Included by gpu/backend/backend.h. */
#ifndef DRIFTGATE_GPU_BACKEND_HIDDEN_H
#define DRIFTGATE_GPU_BACKEND_HIDDEN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct driftgate_head_weight {
  const void* weight;  /**< [vocabulary, width], contiguous; any alignment */
  const float* centre; /**< [width]: approximately the mean row; affects accuracy, not the figures */
  double scale;    /**< greater than 0 */
  double soft_cap; /**< 0: no soft-cap */
  uint32_t dtype;  /**< DRIFTGATE_F32, DRIFTGATE_F16 or DRIFTGATE_BF16 */
  uint32_t reserved;
} driftgate_head_weight;

typedef struct driftgate_hidden_heads {
  uint32_t struct_size;
  uint32_t vocabulary; /**< rows of each weight */
  uint32_t width;
  uint32_t columns;         /**< number of tokens that are not masked */
  const uint32_t* tokens;   /**< their ids, ascending, each less than vocabulary */
  const double* bias_train; /**< scale*bias of K_train for each of them, or NULL */
  const double* bias_drift; /**< bias_train minus scale*bias of K_inf; NULL when bias_train is NULL */
  driftgate_head_weight train;
  driftgate_head_weight inf;
  double temperature; /**< at least 1e-6 */
  uint32_t same;      /**< 1: both kernels have the weight and scale of `train` */
  uint32_t reserved;
} driftgate_hidden_heads;

#ifdef __cplusplus
}
#endif

#endif
