#define DRIFTGATE_KERNEL kAvx2Kernel
#define DRIFTGATE_KERNEL_NAME "avx2"
#include "gpu/cpu/tile_kernel.inl"
// Included after tile_kernel.inl, whose functions they use.
#define DRIFTGATE_NARROW_KERNEL kAvx2NarrowKernel
#include "gpu/cpu/narrow_kernel.inl"
#define DRIFTGATE_MOMENT_KERNEL kAvx2MomentKernel
#include "gpu/cpu/moment_kernel.inl"
