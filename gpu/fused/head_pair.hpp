#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/fused/head.hpp"
#include "gpu/fused/product.hpp"

namespace driftgate::gpu::fused {

/// The heads of two captures, and what is known of every row before its hidden states are.
struct HeadPair {
  std::shared_ptr<const LmHead> train, inf;
  /// One weight and one scale: the drift is one product, W·(h_train − h_inf).
  bool same = false;
  /// Tokens that take part, ascending: all but those whose bias is −Infinity in both heads.
  std::vector<std::uint32_t> tokens;
  /// For each of `tokens`, and zeros to whole vectors: scale·bias of K_train, and less that of K_inf.
  std::vector<double> bias_train, bias_drift;
  /// About the mean row of each weight, [width]. What all tokens share is taken out of the float32 product,
  /// where it would cost the accuracy of what tells them apart, and put back in float64.
  std::vector<float> centre_train, centre_inf;
  LogitShape shape;
  /// Where hidden states and head are bf16 numbers: both products by pairs of them, without the centre.
  const PairKernel* pairs = nullptr;
};

/// Precondition: vocabulary and width agree. `bf16`: so are the hidden states of both captures.
[[nodiscard]] HeadPair pair_heads(const ProductKernel& kernel, std::shared_ptr<const LmHead> train,
                                  std::shared_ptr<const LmHead> inf, double temperature, bool bf16 = false);

}  // namespace driftgate::gpu::fused
