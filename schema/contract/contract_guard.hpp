#pragma once

#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// Whether a guard goes on testing the clause after the promotion: those on error_rate, and those on a
/// quantile of a latency, that the canary decides. Means of latencies have no detector.
[[nodiscard]] bool is_watched(const Clause& clause);

/// Whether a guard with `rescoring` tests the clause on live answers that the engines of both kernels score:
/// a clause of the families numerical and statistical that limits what the log-probabilities of an answer's
/// own tokens show. These are the metrics of target tokens, and tv and kl_inf_train, of which they are
/// unbiased estimates.
/// - A mean over sequences of a bounded metric, or with a clip; a mean over tokens of a bounded metric where
///   the contract states assumptions.max_tokens.
/// - A quantile over sequences of a metric of target tokens.
[[nodiscard]] bool is_rescored(const Clause& clause, const Contract& contract);
/// The addresses of the clauses for which is_rescored holds.
[[nodiscard]] std::vector<std::string> rescored_clauses(const Contract& contract);

/// The sentences of `contract explain` on what is watched after a promotion; empty without a guard.
[[nodiscard]] std::vector<std::string> guard_plan(const Contract& contract);

namespace detail {
/// Records a fault if a step or the bake of the canary could wait for the proof of a clause for ever. Only
/// registration applies this rule (stored_contract.hpp).
void check_duration(const Contract& contract, std::vector<Fault>& faults);
/// Warns of a canary without a guard after it, of a guard that has no clause to test, of probes that their
/// budget cannot pay for, and of rescoring that no clause makes anything of.
void warn_guard(const Contract& contract, std::vector<Fault>& warnings);
}  // namespace detail

}  // namespace driftgate::schema
