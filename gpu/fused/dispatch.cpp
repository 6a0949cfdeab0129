#include "gpu/fused/product.hpp"

namespace driftgate::gpu::fused {

const ProductKernel& best_product() {
#ifdef DRIFTGATE_X86
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512) return kAvx512Product;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    return kAvx2Product;
#endif
  return kPortableProduct;
}

const PairKernel* best_pairs() {
#ifdef DRIFTGATE_X86
  if (&best_product() == &kAvx512Product && __builtin_cpu_supports("avx512bf16")) return &kAvx512Pairs;
#endif
  return nullptr;
}

}  // namespace driftgate::gpu::fused
