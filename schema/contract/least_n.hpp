#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// A discrete share of events (flips, tokens out of the top k or of the clip range): seeing none of them is
/// no proof that there are none, so a mean of them is decided by betting unless enough clusters have one.
[[nodiscard]] bool counts_events(Metric metric);

/// The part of the range of a mean that its limit leaves to events: (max − low)/(high − low), where `high` is the
/// clip or the metric's largest value; mirrored for `min`; of the largest difference for `max_delta`. Entropies
/// end at ln V, taken with V = 150,000. Nothing where values have no largest one.
[[nodiscard]] std::optional<double> share_left(const Clause& clause);

/// Does the search of `slices.discover` look at this clause: a statistical clause whose harm has a betting
/// e-value, that is a `max` or `min` on a bounded mean or on a quantile, or an outcome?
[[nodiscard]] bool discovery_searches(const Clause& clause);

/// α_k of the k-th run of a fixed-data stage for one (checkpoint, kernel, contract): 6α/(π²k²), k ≥ 1.
[[nodiscard]] double spent_alpha_fixed(double alpha, std::uint32_t k);
/// α·2^{−k} of the k-th attempt of a streaming stage, k ≥ 1.
[[nodiscard]] double spent_alpha_streaming(double alpha, std::uint32_t k);

/// The least units with no event at all by which betting with cap 0.99 shows a mean in [0, 1] to be at
/// most `tau` at level alpha: ln(1/α)/ln(1 + 0.99·τ/(1 − τ)). Nothing for τ ≤ 0.
[[nodiscard]] std::optional<std::uint64_t> least_n_betting(double tau, double alpha);
/// The same for the mixture over the caps ½ and 0.99 (absolute failure rate in the canary), when the
/// e-value is the mean over `starts` planned starts of which the others stand at 1.
[[nodiscard]] std::optional<std::uint64_t> least_n_betting_mixture(double tau, double alpha,
                                                                   std::uint32_t starts = 1);
/// The least n whose Clopper–Pearson upper limit with no event, 1 − α^{1/n}, is at most `rate`.
[[nodiscard]] std::optional<std::uint64_t> least_n_binomial(double rate, double alpha);
/// The least n of paired outcomes that all agree whose lower limit −U_{α/2}(0/n) is above −margin.
[[nodiscard]] std::optional<std::uint64_t> least_n_outcome(double margin, double alpha);

/// What one clause needs in one stage before it can pass, in the best case (no event, no spread), at the
/// α that the first run spends. `n` is absent when no amount of data is enough.
struct LeastN {
  Stage stage{};
  std::optional<std::uint64_t> n;
  std::string unit;  ///< "sequences", "outcomes", "pairs", "sticky keys"
  double alpha = 0;
  std::string why;       ///< the method, in a few words
  bool counted = false;  ///< a signal: looked at as it is, no confidence involved
};
[[nodiscard]] std::vector<LeastN> least_n(const Clause& clause, const Contract& contract);

/// Sequences of a slice below which the clause is not decided on it: its own `min_sequences`, else that of
/// `slices`.
[[nodiscard]] std::uint32_t min_sequences_of(const Clause& clause, const Contract& contract);

/// `require` as written, or its default: no_harm for latency and for a max_ratio on a rate, else proof.
[[nodiscard]] Requirement requirement_of(const Clause& clause);

}  // namespace driftgate::schema
