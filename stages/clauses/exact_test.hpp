#pragma once

#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/selection.hpp"

namespace driftgate::stages {

/// The names that gpu::compare_bits must be given so that the exact clauses of `contract` can be decided,
/// without repetition, in the order of the clauses.
[[nodiscard]] std::vector<std::string> required_bits(const schema::Contract& contract);

/// Decides a clause with `equal: true` on the whole corpus. One row whose bits differ violates it; the
/// message names the sequence, the position, the first element that differs and both bit patterns. It passes
/// if no row differs over at least `least_units` clusters of sequences, with 1 − α^{1/n} in
/// details.rate_bound, and else is inconclusive. The verdict is error where the captures lack the tensor, or
/// hold it in types that cannot be compared.
[[nodiscard]] schema::ClauseVerdict decide_exact(const ClauseData& data, const schema::ExactSubject& subject,
                                                 std::uint64_t least_units, schema::ClauseVerdict verdict);

}  // namespace driftgate::stages
