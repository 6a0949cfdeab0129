#pragma once

#include <vector>

#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::test {

/// Every tile kernel that this processor runs, so that tests do not only see the fastest.
inline std::vector<const cpu::TileKernel*> kernels() {
  std::vector<const cpu::TileKernel*> out = {&cpu::kPortableKernel};
#ifdef DRIFTGATE_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out.push_back(&cpu::kAvx2Kernel);
  if (&cpu::best_kernel() == &cpu::kAvx512Kernel) out.push_back(&cpu::kAvx512Kernel);
#endif
  return out;
}

}  // namespace driftgate::gpu::test
