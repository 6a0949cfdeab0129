#pragma once

#include <string>

#include "schema/contract/contract.hpp"

/// What a contract says of the means and quantiles of captures: `aggregate`, `clip`, `over` and
/// `confidence.means` together (docs/design/statistics.md, "Means").
namespace driftgate::schema {

/// Whether an end of the metric's values is known before any data: [low, high] of the registry, and [0, ln V]
/// of entropies, whose V the captures say.
[[nodiscard]] bool has_finite_range(Metric metric);

/// Whether the clause limits a mean over captured rows or sequences, which `confidence.means` decides.
[[nodiscard]] bool limits_a_mean(const Clause& clause);

/// Whether the mean gives each token the same say, so that a sequence has as much as it is long. False where
/// each sequence counts once.
[[nodiscard]] bool weighs_tokens(const MetricSubject& subject);

/// Why `clip` makes no sense for this subject; empty where it does: a mean over sequences of values that have
/// a smallest one.
[[nodiscard]] std::string why_no_clip(const MetricSubject& subject);

/// Why no exact method decides the clause's mean under this contract, and what to write instead; empty where
/// one does, or where the contract asks for the approximate method, or where the clause limits no mean.
[[nodiscard]] std::string why_no_exact_mean(const Clause& clause, const Contract& contract);

/// The clause that says how many sequences may lie above the clip of `clipped`: on the same metric, a
/// quantile over sequences whose `max` is at most the clip, decided in the same stages and on the same
/// slices. Null where the contract has none.
[[nodiscard]] const Clause* quantile_beside(const Clause& clipped, const Contract& contract);

}  // namespace driftgate::schema
