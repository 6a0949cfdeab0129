#include "gpu/cpu/tile_kernel.hpp"
#include "gpu/support/bets_kernel.hpp"

namespace driftgate::gpu {

const BetsKernel& best_bets() {
#ifdef DRIFTGATE_X86
  const cpu::TileKernel& best = cpu::best_kernel();
  if (&best == &cpu::kAvx512MomentKernel) return kAvx512Bets;
  if (&best == &cpu::kAvx2MomentKernel) return kAvx2Bets;
#endif
  return kPortableBets;
}

}  // namespace driftgate::gpu
