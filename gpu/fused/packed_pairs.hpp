#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/fused/head.hpp"
#include "gpu/fused/product.hpp"

namespace driftgate::gpu::fused {

/// The least multiple of `step` that is no less than `value`.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

/// Computes both products (logits and drift) of a block of rows and a tile of tokens under one head, where
/// hidden states and head are bf16. The processor multiplies pairs of bf16: two elements of the width at
/// once, exactly, summed in float32 over kDepth elements and in float64 beyond.
///
/// The drift scale·(h_train − h_inf), in float32, is the sum of up to three bf16 numbers ("pieces"). The
/// first piece of each element is stored densely; the others, which are seldom different from 0, are stored
/// as further terms of a panel of rows. A term is 0 in the rows that do not need it, and terms are summed in
/// a fixed order, so that the products of a row do not depend on its neighbours.
class PackedPairs {
 public:
  PackedPairs(const PairKernel& kernel, std::size_t most_rows, std::size_t width);

  /// Removes all rows and makes room for `rows`, a multiple of the rows of the kernel.
  void clear(std::size_t rows);
  /// Sets one row: the hidden state of K_train, all of whose elements are bf16 numbers, and the drift; all
  /// finite.
  void set_row(std::size_t row, std::span<const float> train, std::span<const float> drift);
  /// Call after the last row and before add_products.
  void order_terms();
  /// Adds the contribution of elements [step·kDepth, (step + 1)·kDepth) to both products with the rows of
  /// `tokens` in the head. `z` and `drift` hold one row after the other, `stride` doubles apart.
  void add_products(std::size_t step, const LmHead& head, std::span<const std::uint32_t> tokens, double* z,
                    double* drift, std::size_t stride);
  [[nodiscard]] std::size_t scratch_bytes() const;

 private:
  static constexpr std::size_t kPairs = kDepth / 2;  ///< of a step
  static constexpr std::size_t kPieces = 3;          ///< that make a float
  static constexpr std::uint8_t kNone = 0xff;
  /// The terms of one step and one panel of rows of the drift.
  struct Terms {
    std::uint8_t place[kPieces][kPairs];  ///< where a piece of a pair is stored, or kNone
    std::uint8_t count;
    PairKernel::Term ordered[kPieces * kPairs];  ///< by piece and pair
  };
  [[nodiscard]] std::size_t pairs_of(std::size_t step) const;
  [[nodiscard]] std::size_t panel(std::size_t step, std::size_t row) const {
    return step * panels_ + row / kernel_.rows;
  }
  [[nodiscard]] std::uint32_t* term(std::size_t panel, std::size_t piece, std::size_t pair);
  void pack_tokens(std::size_t step, const LmHead& head, std::span<const std::uint32_t> tokens);

  const PairKernel& kernel_;
  std::size_t width_, steps_, panels_, rows_ = 0;
  std::vector<std::uint32_t> train_, drift_, tokens_;
  std::vector<Terms> terms_;
};

}  // namespace driftgate::gpu::fused
