#pragma once

#include <cstddef>

#include "gpu/table/support_sums.hpp"

/// The loops over columns of SupportBets. Each instruction set has a translation unit that compiles
/// gpu/support/bets_kernel.inl; all of them round alike.
namespace driftgate::gpu {

inline constexpr std::size_t kBetLanes = 8;
/// Below the smallest normal float32 engines and trainers see a probability as nothing or nearly.
inline constexpr double kUnderflow = 0x1p-126;
/// What q counts as where it is 0 in double; such tokens weigh nothing.
inline constexpr double kLeastQ = 0x1p-1020;

/// Some columns of one row; their number is a multiple of kBetLanes.
struct BetColumns {
  double* train;  ///< logits; `weigh` makes e^(logit − top) of them
  double* inf;
  double* odds;  ///< that the token is never taken
  std::size_t count;
};

/// Sums over some columns of one row.
struct BetSums {
  double preference[kPreferenceBets];  ///< Σ q·e^(−λ(w − 1)), then Σ q·[w ≤ kPreferred]
  double p_lost;                       ///< Σ p where q underflows float32
  double taken_q, untaken_p;           ///< Σ q/(1 + odds), Σ p·odds/(1 + odds)
};

struct BetsKernel {
  void (*weigh)(const BetColumns& columns, double top_train, double top_inf);
  /// `to_p`, `to_q`: what makes probabilities of `train` and `inf`. The odds grow by what a token that is not
  /// taken in this row makes likelier.
  void (*bet)(const BetColumns& columns, double to_p, double to_q, BetSums& out);
};

extern const BetsKernel kPortableBets;
#ifdef DRIFTGATE_X86
extern const BetsKernel kAvx2Bets;
extern const BetsKernel kAvx512Bets;
#endif

/// The fastest one that this processor runs.
[[nodiscard]] const BetsKernel& best_bets();

}  // namespace driftgate::gpu
