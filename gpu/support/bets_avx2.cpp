#define DRIFTGATE_BETS kAvx2Bets
#include "gpu/support/bets_kernel.inl"
