#pragma once

#include <cstdint>
#include <vector>

#include "stages/planning/regressions.hpp"

namespace driftgate::stages {

/// The part of smallest_regressions that is about the canary: the tests of all its clauses, at the shares and
/// levels of this contract's `k`-th run. Empty for a contract without a canary, and for one that a canary
/// cannot evaluate.
[[nodiscard]] std::vector<SmallestRegression> canary_regressions(const schema::Contract& contract,
                                                                 std::uint64_t seed, std::uint32_t k,
                                                                 double requests_per_second);

}  // namespace driftgate::stages
