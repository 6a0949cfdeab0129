// Compiled once for each instruction set, under the name DRIFTGATE_BETS and without contractions, so that all of them
// round alike.

#include "gpu/cpu/vector_math.inl"
#include "gpu/support/bets_kernel.hpp"

namespace driftgate::gpu {

namespace {

/// The largest odds keep some wealth where a token is taken after all.
constexpr double kLargestOdds = 99;

void weigh(const BetColumns& columns, double top_train, double top_inf) {
  for (std::size_t i = 0; i < columns.count; i += kBetLanes) {
    store(columns.train + i, exp8(load(columns.train + i) - top_train));
    store(columns.inf + i, exp8(load(columns.inf + i) - top_inf));
  }
}

void bet(const BetColumns& columns, double to_p, double to_q, BetSums& out) {
  f64x8 ratios[kRatioBets]{}, preferred[kPreferred.size()]{}, lost{}, taken{}, untaken{};
  for (std::size_t first = 0; first < columns.count; first += kBetLanes) {
    const f64x8 p = load(columns.train + first) * to_p, q = load(columns.inf + first) * to_q;
    const f64x8 odds = load(columns.odds + first);
    const f64x8 ratio = p / larger(q, splat(kLeastQ));
    f64x8 factor = exp8(kLeastLambda * (1.0 - ratio));
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRatioBets; ++i) {
      ratios[i] += q * factor;
      factor = factor * factor;
      factor = factor * factor;
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kPreferred.size(); ++i)
      preferred[i] += select(ratio <= kPreferred[i], q, f64x8{});
    lost += select(q < kUnderflow, p, f64x8{});
    const f64x8 free = 1.0 / (1.0 + odds);  // the probability that a token may be taken
    taken += q * free;
    untaken += p * (1.0 - free);
    store(columns.odds + first, smaller(odds * (1.0 + q), splat(kLargestOdds)));
  }
  for (std::size_t i = 0; i < kRatioBets; ++i) out.preference[i] = total(ratios[i]);
  for (std::size_t i = 0; i < kPreferred.size(); ++i) out.preference[kRatioBets + i] = total(preferred[i]);
  out.p_lost = total(lost), out.taken_q = total(taken), out.untaken_p = total(untaken);
}

}  // namespace

extern const BetsKernel DRIFTGATE_BETS;
const BetsKernel DRIFTGATE_BETS = {weigh, bet};

}  // namespace driftgate::gpu
