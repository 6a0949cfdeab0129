#define DRIFTGATE_KERNEL kAvx512Kernel
#define DRIFTGATE_KERNEL_NAME "avx512"
#include "gpu/cpu/tile_kernel.inl"
// Included after tile_kernel.inl, whose functions they use.
#define DRIFTGATE_NARROW_KERNEL kAvx512NarrowKernel
#include "gpu/cpu/narrow_kernel.inl"
#define DRIFTGATE_MOMENT_KERNEL kAvx512MomentKernel
#include "gpu/cpu/moment_kernel.inl"
