#pragma once

#include <cstdint>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::stages {

/// The number of pairs, one for each sticky key, that the clauses of shadow-runtime need on all mirrored
/// traffic (`where` is empty) or on one critical slice before each of them can pass.
struct ShadowNeed {
  schema::SliceWhere where;
  std::uint64_t pairs = 0;
};

/// The least numbers of pairs, in the best case and at the level that the `k`-th run (from 1) spends:
/// first on all traffic, then on the critical slices that clauses name. Clauses that no amount of data can
/// prove and clauses on signals do not contribute. Nothing depends on outcomes, so that the end of the stage
/// may be planned by these numbers.
[[nodiscard]] std::vector<ShadowNeed> shadow_needs(const schema::Contract& contract, std::uint32_t k);

/// The number of pairs that clauses on the signal shadow_pairs ask for; 0 where none does.
[[nodiscard]] std::uint64_t pairs_asked_for(const schema::Contract& contract);

}  // namespace driftgate::stages
