#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::cpu {

const TileKernel& best_kernel() {
#ifdef DRIFTGATE_X86
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512) return kAvx512MomentKernel;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    return kAvx2MomentKernel;
#endif
  return kPortableKernel;
}

}  // namespace driftgate::gpu::cpu
