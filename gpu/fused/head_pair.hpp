#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/fused/head.hpp"
#include "gpu/fused/product.hpp"

namespace driftgate::gpu::fused {

/// The heads of two captures, and what can be computed from them before any row is measured.
struct HeadPair {
  std::shared_ptr<const LmHead> train, inf;
  /// Whether both heads have one weight and one scale, so that the drift is a single product, W·(h_train −
  /// h_inf).
  bool same = false;
  /// Ids of the tokens that are not masked, ascending: a bias of −∞ in both heads masks a token.
  std::vector<std::uint32_t> tokens;
  /// For each of `tokens`, padded with zeros to whole vectors: scale·bias of K_train, and its difference from
  /// that of K_inf.
  std::vector<double> bias_train, bias_drift;
  /// Approximately the mean row of each weight, [width]. It is subtracted before the float32 product, whose
  /// accuracy the part that all tokens share would cost, and its contribution is added in float64.
  std::vector<float> centre_train, centre_inf;
  LogitShape shape;
  /// Set where hidden states and head are bf16 numbers: products are formed by pairs of them, without the
  /// centre.
  const PairKernel* pairs = nullptr;
};

/// Precondition: vocabulary and width of the heads agree. `bf16`: whether the hidden states of both captures
/// are bf16.
[[nodiscard]] HeadPair pair_heads(const ProductKernel& kernel, std::shared_ptr<const LmHead> train,
                                  std::shared_ptr<const LmHead> inf, double temperature, bool bf16 = false);

}  // namespace driftgate::gpu::fused
