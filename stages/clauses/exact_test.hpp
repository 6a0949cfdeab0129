#pragma once

#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// What must be compared bit by bit (gpu::compare_bits), so that the exact clauses of `contract` can
/// be decided from its table. Without repetition, in the order of the clauses.
[[nodiscard]] std::vector<std::string> required_bits(const schema::Contract& contract);

/// Decides a clause with `equal: true` on the whole corpus by a census: one row whose bits differ violates
/// it, and the verdict names its sequence, its position and the first element that differs with both bit
/// patterns. With no such row in at least `least_units` independent sequences it passes, and 1 − α^{1/n} is
/// reported. An error where the captures hold no bits of what the clause names, or none that can be compared,
/// says why.
[[nodiscard]] schema::ClauseVerdict decide_exact(const ClauseData& data, const schema::ExactSubject& subject,
                                                 std::uint64_t least_units, schema::ClauseVerdict verdict);

}  // namespace driftgate::stages
