#define DRIFTGATE_PRODUCT kAvx512Product
#define DRIFTGATE_PRODUCT_NAME "avx512"
#define DRIFTGATE_TILES kAvx512Kernel
#define DRIFTGATE_LANES 16
#define DRIFTGATE_ROWS 14
#include "gpu/fused/product_kernel.inl"
