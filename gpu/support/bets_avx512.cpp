#define DRIFTGATE_BETS kAvx512Bets
#include "gpu/support/bets_kernel.inl"
