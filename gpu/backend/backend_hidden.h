/* Rows of hidden states: logits x = scale*(W*h + bias), then the soft-cap, then over the temperature, which
 * the engine forms and never stores. The heads are brought once; batches of rows follow. Included by
 * gpu/backend/backend.h. */
#ifndef DRIFTGATE_GPU_BACKEND_HIDDEN_H
#define DRIFTGATE_GPU_BACKEND_HIDDEN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct driftgate_head_weight {
  const void* weight; /**< vocabulary rows of width elements, one after the other; any alignment */
  const float*
      centre;      /**< [width]: about the mean of the rows; any values, the figures do not depend on them */
  double scale;    /**< greater than 0 */
  double soft_cap; /**< 0: none */
  uint32_t dtype;  /**< DRIFTGATE_F32, DRIFTGATE_F16 or DRIFTGATE_BF16 */
  uint32_t reserved;
} driftgate_head_weight;

typedef struct driftgate_hidden_heads {
  uint32_t struct_size;
  uint32_t vocabulary; /**< rows of each weight */
  uint32_t width;
  uint32_t columns;         /**< tokens that take part */
  const uint32_t* tokens;   /**< them, ascending, each less than vocabulary */
  const double* bias_train; /**< scale*bias of K_train of each of them, or NULL */
  const double* bias_drift; /**< and less that of K_inf; NULL when bias_train is */
  driftgate_head_weight train;
  driftgate_head_weight inf;
  double temperature; /**< at least 1e-6 */
  uint32_t same;      /**< 1: one weight and one scale, those of `train` */
  uint32_t reserved;
} driftgate_hidden_heads;

#ifdef __cplusplus
}
#endif

#endif
