#pragma once

#include <string_view>
#include <vector>

#include "gpu/cpu/tile_kernel.hpp"

namespace driftgate::gpu::test {

/// Every tile kernel that this processor runs, so that tests do not only see the fastest.
inline std::vector<const cpu::TileKernel*> kernels() {
  std::vector<const cpu::TileKernel*> out = {&cpu::kPortableKernel};
#ifdef DRIFTGATE_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    out.push_back(&cpu::kAvx2Kernel);
    out.push_back(&cpu::kAvx2NarrowKernel);
    out.push_back(&cpu::kAvx2MomentKernel);
  }
  if (&cpu::best_kernel() == &cpu::kAvx512MomentKernel) {
    out.push_back(&cpu::kAvx512Kernel);
    out.push_back(&cpu::kAvx512NarrowKernel);
    out.push_back(&cpu::kAvx512MomentKernel);
  }
#endif
  return out;
}

/// Whether the kernel measures in float32 where that is accurate enough.
inline bool is_narrow(const cpu::TileKernel& kernel) {
  return std::string_view(kernel.name).find("float32") != std::string_view::npos;
}

}  // namespace driftgate::gpu::test
