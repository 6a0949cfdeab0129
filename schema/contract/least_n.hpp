#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/contract/spending.hpp"

namespace driftgate::schema {

/// Whether the metric is a share of discrete events: greedy tokens that flip, tokens missing from the top k,
/// tokens outside the PPO clip or outside a band. Resampling data with few events says little about how rare
/// they are, so such means are decided by betting unless enough clusters have an event.
[[nodiscard]] bool counts_events(Metric metric);

/// The range of the values that a clause on a metric limits. `high` is the clip, else the end of the metric's
/// range; for entropies ln V with V = 150,000. std::nullopt for other subjects and where values have no
/// largest one.
struct ValueEnds {
  double low = 0, high = 1;
};
[[nodiscard]] std::optional<ValueEnds> ends_of(const Clause& clause);

/// The limit of a clause on a metric as a share of that range: (max − low)/(high − low) for `max`, (high −
/// min)/(high − low) for `min`, max_delta/(high − low) for `max_delta`. std::nullopt without a range.
[[nodiscard]] std::optional<double> share_left(const Clause& clause);

/// Whether `slices.discover` searches this clause: one of statistical-slice on an outcome, or with `max` or
/// `min` and no noise floor on a quantile or on a mean of bounded values. Only these have an e-value of harm
/// by betting.
[[nodiscard]] bool discovery_searches(const Clause& clause);

/// The least number of units with which betting with cap 0.99 proves a mean in [0, 1] to be at most `tau` at
/// level alpha, if every value is 0: ⌈ln(1/α)/ln(1 + 0.99·τ/(1 − τ))⌉. std::nullopt for τ ≤ 0, and 1 for τ ≥
/// 1.
[[nodiscard]] std::optional<std::uint64_t> least_n_betting(double tau, double alpha);
/// The same for the canary's test of an absolute failure rate: the equal mixture of the caps ½ and 0.99, as
/// the mean over `starts` planned starts of which only one runs and the others count as 1
/// (docs/design/statistics.md, "Planned starts").
[[nodiscard]] std::optional<std::uint64_t> least_n_betting_mixture(double tau, double alpha,
                                                                   std::uint32_t starts = 1);
/// The least n whose upper Clopper–Pearson limit without any event, 1 − α^{1/n}, is at most `rate`.
/// std::nullopt for rate ≤ 0, and 1 for rate ≥ 1.
[[nodiscard]] std::optional<std::uint64_t> least_n_binomial(double rate, double alpha);
/// The least number of paired outcomes, all of which agree, that prove the difference to be above −margin:
/// Clopper–Pearson limits at α/2 each.
[[nodiscard]] std::optional<std::uint64_t> least_n_outcome(double margin, double alpha);

/// How much data a clause needs in a stage before it can pass, in the best case (no event and no spread), at
/// the level `alpha`, which the run spends.
struct LeastN {
  Stage stage{};
  std::optional<std::uint64_t> n;  ///< absent: no amount of data is enough
  std::string unit;                ///< "sequences", "outcomes", "pairs", "prompts" or "sticky keys"
  double alpha = 0;
  std::string why;       ///< the method in a few words, or why no amount of data is enough
  bool counted = false;  ///< an observability signal, which is compared with its limit and not tested
};
/// One entry for each stage that decides the clause, at the levels that these runs spend.
[[nodiscard]] std::vector<LeastN> least_n(const Clause& clause, const Contract& contract,
                                          const Runs& runs = Runs());

/// The number of sequences below which the clause is not decided on a slice: its own `min_sequences`, else
/// that of `slices`.
[[nodiscard]] std::uint32_t min_sequences_of(const Clause& clause, const Contract& contract);

/// `require` as stated, else the default: no_harm for latencies and for a `max_ratio` on a failure rate
/// without a `max`, proof for everything else.
[[nodiscard]] Requirement requirement_of(const Clause& clause);

}  // namespace driftgate::schema
