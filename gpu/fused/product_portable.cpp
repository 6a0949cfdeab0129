#define DRIFTGATE_PRODUCT kPortableProduct
#define DRIFTGATE_PRODUCT_NAME "portable"
#define DRIFTGATE_TILES kPortableKernel
#define DRIFTGATE_LANES 4
#define DRIFTGATE_ROWS 4
#include "gpu/fused/product_kernel.inl"
