#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::schema {

/// A canary compares failure rates of two kernels over blocks of time, longer than a stall
/// (docs/design/statistics.md, "Blocks of time"): nothing is said of a `max_ratio` before this many blocks.
inline constexpr std::uint32_t kLeastBlocks = 30;
/// The shortest block where `burst` is not stated; longer where the incumbent showed longer stalls.
inline constexpr std::int64_t kLeastBlockMs = 12'000;

/// `max_ratio` on a failure rate, decided in the canary.
[[nodiscard]] bool compares_failure_rates(const Clause& clause);
[[nodiscard]] std::vector<std::string> clauses_over_blocks(const Contract& contract);
/// How long a step must last for kLeastBlocks, at `burst` or at kLeastBlockMs.
[[nodiscard]] std::int64_t least_step_ms(const CanaryPlan& plan);
/// For `explain`; nothing where no clause compares failure rates.
[[nodiscard]] std::vector<std::string> blocks_plan(const Contract& contract);

namespace detail {
/// Warns of steps that can end before their ratio is evaluable.
void warn_blocks(const Contract& contract, std::vector<Fault>& warnings);
}  // namespace detail

}  // namespace driftgate::schema
