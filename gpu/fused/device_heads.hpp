#pragma once

#include "gpu/backend/backend.h"
#include "gpu/fused/head_pair.hpp"

namespace driftgate::gpu::fused {

/// Converts a pair of heads to the descriptor of gpu/backend/backend_hidden.h, which points into the pair;
/// the pair must outlive it.
[[nodiscard]] inline driftgate_hidden_heads device_heads(const HeadPair& pair) {
  const auto weight = [](const LmHead& head, const std::vector<float>& centre) {
    return driftgate_head_weight{head.row(0), centre.data(), head.scale(), head.soft_cap(), head.dtype(), 0};
  };
  const bool bias = !pair.bias_train.empty();
  return {sizeof(driftgate_hidden_heads),
          pair.train->vocabulary(),
          pair.train->width(),
          static_cast<std::uint32_t>(pair.tokens.size()),
          pair.tokens.data(),
          bias ? pair.bias_train.data() : nullptr,
          bias ? pair.bias_drift.data() : nullptr,
          weight(*pair.train, pair.centre_train),
          weight(*pair.inf, pair.centre_inf),
          pair.shape.temperature,
          pair.same ? 1U : 0U,
          0};
}

}  // namespace driftgate::gpu::fused
