#define DRIFTGATE_KERNEL kAvx512Kernel
#define DRIFTGATE_KERNEL_NAME "avx512"
#include "gpu/cpu/tile_kernel.inl"
