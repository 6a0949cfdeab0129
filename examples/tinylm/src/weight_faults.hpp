#pragma once
/// Wrong weights that are reported under the digest of the checkpoint, to test whether contracts detect them.

#include <optional>
#include <string_view>

#include "examples/tinylm/src/model.hpp"

namespace tinylm {

enum class WeightFault {
  swapped_layers,  ///< the two middle layers exchanged, as by a wrong index in a loader
  stale_weights,   ///< every matrix slightly changed, as in an earlier checkpoint
};

/// "swapped-layers", "stale-weights".
std::optional<WeightFault> weight_fault_of(std::string_view name);

/// Changes the weights but not the digest. Stale weights are the stored ones with each matrix moved by 5% of
/// its root mean square in a random direction with a fixed seed: they stand in for the weights a few hundred
/// updates earlier.
void apply_weight_fault(Model& model, WeightFault fault);

}  // namespace tinylm
