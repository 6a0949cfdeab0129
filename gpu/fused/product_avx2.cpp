#define DRIFTGATE_PRODUCT kAvx2Product
#define DRIFTGATE_PRODUCT_NAME "avx2"
#define DRIFTGATE_TILES kAvx2Kernel
#define DRIFTGATE_LANES 8
#define DRIFTGATE_ROWS 6
#include "gpu/fused/product_kernel.inl"
