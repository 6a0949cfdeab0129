#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// The number of blocks of time from which on a canary's `max_ratio` on a failure rate is evaluable
/// (docs/design/statistics.md, "Blocks of time").
inline constexpr std::uint32_t kLeastBlocks = 30;
/// The length of a block, in ms, where the contract states no `burst`. It is longer where the incumbent had
/// longer stalls.
inline constexpr std::int64_t kLeastBlockMs = 12'000;

/// Whether the clause states a `max_ratio` on error_rate and is decided in the canary.
[[nodiscard]] bool compares_failure_rates(const Clause& clause);
/// The addresses of the clauses for which compares_failure_rates holds.
[[nodiscard]] std::vector<std::string> clauses_over_blocks(const Contract& contract);
/// The duration, in ms, of kLeastBlocks blocks of length `burst`, or of kLeastBlockMs without one.
[[nodiscard]] std::int64_t least_step_ms(const CanaryPlan& plan);
/// The sentence of `contract explain` on blocks of time; empty where no clause compares failure rates in a
/// canary.
[[nodiscard]] std::vector<std::string> blocks_plan(const Contract& contract);

namespace detail {
/// Warns of each such clause if a step may end before its ratio is evaluable.
void warn_blocks(const Contract& contract, std::vector<Fault>& warnings);
}  // namespace detail

}  // namespace driftgate::schema
