#pragma once

#include <cstdint>

#include "gpu/cuda/hidden_digits.hpp"
#include "gpu/cuda/kernels.hpp"

/// Launches of the kernels for hidden states; conventions as in kernels.hpp.
namespace driftgate::gpu::cuda {

/// How the sweeps are laid out on one device.
struct HiddenLayout {
  std::uint32_t rows = 0, columns = 0;  ///< of a block's tile
  std::uint32_t parts_of_tile = 0;      ///< of the sample
  std::uint32_t stages = 0, shared_bytes = 0;
  std::uint32_t blocks = 0;  ///< that run at once
};
int plan_hidden(HiddenLayout& layout);

/// Computes the digits of head `which` (0 W_train, 1 W_inf, 2 their difference) and the norms of its lines.
int launch_pack_head(const HeadsView& heads, unsigned which, const DigitLines& to, LineNorms* norms,
                     StreamHandle stream);

/// Measures a batch. `results` is in device memory.
int launch_hidden(const HeadsView& heads, const HiddenBatch& batch, const HiddenScratch& scratch,
                  const HiddenLayout& layout, driftgate_row* results, StreamHandle stream);

}  // namespace driftgate::gpu::cuda
