#pragma once
/// Wrong weights under the right name, to test contracts with: the capture still claims the checkpoint.

#include <optional>
#include <string_view>

#include "examples/tinylm/src/model.hpp"

namespace tinylm {

enum class WeightFault {
  swapped_layers,  ///< the two middle layers in each other's place, as by a wrong index in a loader
  stale_weights,   ///< every matrix a step away from what it should be, as from an earlier checkpoint
};

/// "swapped-layers", "stale-weights".
std::optional<WeightFault> weight_fault_of(std::string_view name);

/// Changes the weights, not the digest. Stale weights are the stored ones with each matrix moved by 5% of its
/// root mean square in a random direction of a fixed seed: a stand-in for the last few hundred updates.
void apply_weight_fault(Model& model, WeightFault fault);

}  // namespace tinylm
