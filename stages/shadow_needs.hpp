#pragma once

#include <cstdint>
#include <vector>

#include "schema/contract/contract.hpp"

namespace driftgate::stages {

/// Pairs, one of each sticky key, that the clauses of shadow-runtime take on all mirrored traffic (`where`
/// empty) or on one critical slice before each of them could pass.
struct ShadowNeed {
  schema::SliceWhere where;
  std::uint64_t pairs = 0;
};

/// The least pairs for every clause that shadow-runtime decides, in the best case and at the α that the
/// `attempt`-th run spends (from 1): the whole first, then the critical slices that clauses name. Left out:
/// clauses that no amount of data can prove, and signals, which are counted as they are. Nothing depends on
/// outcomes, so that the end of the stage may be planned by it.
[[nodiscard]] std::vector<ShadowNeed> shadow_needs(const schema::Contract& contract, std::uint32_t attempt);

}  // namespace driftgate::stages
