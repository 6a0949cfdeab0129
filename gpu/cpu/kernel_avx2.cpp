#define DRIFTGATE_KERNEL kAvx2Kernel
#define DRIFTGATE_KERNEL_NAME "avx2"
#include "gpu/cpu/tile_kernel.inl"
