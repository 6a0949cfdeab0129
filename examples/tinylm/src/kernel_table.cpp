#include <cstdlib>
#include <string_view>

#include "examples/tinylm/src/kernels.hpp"

namespace tinylm {

namespace baseline {
extern const Kernels kTable;
}
#ifdef TINYLM_X86
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
#endif

namespace {

const Kernels& choose() {
#ifdef TINYLM_X86
  const char* wish_text = std::getenv("TINYLM_ISA");
  const std::string_view wish = wish_text == nullptr ? "" : wish_text;
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f");
  if (has_avx512 && (wish.empty() || wish == "avx512")) return avx512::kTable;
  if (has_avx2 && wish != "baseline") return avx2::kTable;
#endif
  return baseline::kTable;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace tinylm
