#pragma once

#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// Whether a guard goes on testing the clause after the promotion: those on error_rate, and those on a
/// quantile of a latency, that the canary decides. Means of latencies have no detector.
[[nodiscard]] bool is_watched(const Clause& clause);

/// The sentences of `contract explain` on what is watched after a promotion; empty without a guard.
[[nodiscard]] std::vector<std::string> guard_plan(const Contract& contract);

namespace detail {
/// Records a fault if a step or the bake of the canary could wait for the proof of a clause for ever. Only
/// registration applies this rule (stored_contract.hpp).
void check_duration(const Contract& contract, std::vector<Fault>& faults);
/// Warns of a canary without a guard after it, of a guard that has no clause to test, and of probes that
/// their budget cannot pay for.
void warn_guard(const Contract& contract, std::vector<Fault>& warnings);
}  // namespace detail

}  // namespace driftgate::schema
