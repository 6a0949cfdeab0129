#pragma once

#include <string>

#include "schema/contract/contract.hpp"

/// Rules on clauses that limit means and quantiles of captures: how `aggregate`, `clip`, `over` and
/// `confidence.means` work together (docs/design/statistics.md, "Means").
namespace driftgate::schema {

/// Whether both ends of the metric's range are finite and known before any data. True for entropies, whose
/// upper end ln V follows from the captures' vocabulary.
[[nodiscard]] bool has_finite_range(Metric metric);

/// Whether the clause limits a mean over captured rows or sequences, so that `confidence.means` applies to
/// it.
[[nodiscard]] bool limits_a_mean(const Clause& clause);

/// Whether the mean weights each token equally, so that a sequence counts in proportion to its length. False
/// where each sequence counts once.
[[nodiscard]] bool weighs_tokens(const MetricSubject& subject);

/// Why a clause on this subject cannot have a `clip`; empty where it can, which takes the aggregate
/// sequence_mean of a captured metric whose range has a finite lower end.
[[nodiscard]] std::string why_no_clip(const MetricSubject& subject);

/// Why no exact method can decide the clause's mean under this contract, and what to write instead. Empty
/// where one can, where the contract asks for the approximate method, and where the clause limits no mean.
[[nodiscard]] std::string why_no_exact_mean(const Clause& clause, const Contract& contract);

/// Why no method can decide the clause's quantile over rows under this contract, and what to write instead.
/// Empty where one can, and for every other clause.
[[nodiscard]] std::string why_no_share_of_rows(const Clause& clause, const Contract& contract);

/// The clause that limits how many sequences may lie above the clip of `clipped`: a quantile over sequences
/// of the same metric with a `max` of at most the clip and without a noise floor, which is decided in every
/// stage and on all roles of slices that `clipped` is, and is not soft if `clipped` is hard. Null where the
/// contract has none.
[[nodiscard]] const Clause* quantile_beside(const Clause& clipped, const Contract& contract);

}  // namespace driftgate::schema
