#define DRIFTGATE_KERNEL kPortableKernel
#define DRIFTGATE_KERNEL_NAME "portable"
#include "gpu/cpu/tile_kernel.inl"
