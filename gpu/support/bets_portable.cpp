#define DRIFTGATE_BETS kPortableBets
#include "gpu/support/bets_kernel.inl"
