#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpu/fused/head_pair.hpp"
#include "gpu/fused/packed_pairs.hpp"

namespace driftgate::gpu::fused {

inline constexpr std::size_t kTileTokens = 256;  ///< columns of a tile of logits
inline constexpr std::size_t kMaxBlockRows = 252;
/// Bytes of packed hidden states of one block, and of all scratch of one thread beside the top lists.
inline constexpr std::size_t kPackedBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxThreadBytes = kPackedBytes + (std::size_t{4} << 20);

/// Rows of a block for hidden states of this width: fewer where they are wide.
[[nodiscard]] std::size_t block_rows(const ProductKernel& kernel, std::uint32_t width);

/// Products of a block of rows and a tile of tokens: W_train·h_train and the drift
/// scale_inf·W_inf·(h_train − h_inf) + (scale_train·W_train − scale_inf·W_inf)·h_train, whose first term
/// alone is left under one head. Float32 products in steps of kDepth, summed in float64; each element's
/// order of summation depends on nothing but the width. Of bf16 numbers by pairs (heads.pairs). See
/// docs/design/measurement.md, "Hidden states".
class BlockProduct {
 public:
  BlockProduct(const ProductKernel& kernel, const HeadPair& heads, std::size_t most_rows);

  /// Packs the rows. Precondition: rows.size() ≤ most_rows; they stay valid until the next call.
  void set_rows(std::span<const HiddenRow> rows);
  /// Whether the hidden states of K_train and K_inf are finite; where one is not, the row's products are 0.
  [[nodiscard]] bool finite_train(std::size_t row) const { return (flaws_[row] & 1U) == 0; }
  [[nodiscard]] bool finite_inf(std::size_t row) const { return (flaws_[row] & 2U) == 0; }

  /// Multiplies for tokens [first, first + count) of heads.tokens, count ≤ kTileTokens.
  void multiply(std::size_t first, std::size_t count);
  /// The last products of a row, kTileTokens of each; the caller may change them.
  [[nodiscard]] double* z(std::size_t row) { return z_.data() + row * kTileTokens; }
  [[nodiscard]] double* drift(std::size_t row) { return drift_.data() + row * kTileTokens; }

  struct Exact {
    double z, drift;
  };
  /// The same products of one row and token in float64.
  [[nodiscard]] Exact exact(std::size_t row, std::uint32_t token);

  [[nodiscard]] std::size_t scratch_bytes() const;

 private:
  enum class Weight { train, inf, difference };
  void pack_row(std::size_t row);
  void pack_tokens(Weight weight, std::size_t first, std::size_t count, std::size_t from, std::size_t depth);
  /// Elements [from, from + depth) of a token's row less those of the centre; depth ≤ kDepth.
  void widen_token(Weight weight, std::uint32_t token, std::size_t from, std::size_t depth, float* to);
  struct Shared {
    double z, drift;
  };
  /// What the centres contribute to every product of the row that was packed or loaded last.
  [[nodiscard]] Shared shared_part() const;
  void add_products(const float* packed, std::size_t depth, std::size_t tokens, double* to);

  const ProductKernel& kernel_;
  const HeadPair& heads_;
  std::size_t width_, panel_rows_, padded_rows_ = 0;
  std::span<const HiddenRow> rows_;
  std::vector<std::uint8_t> flaws_;
  std::vector<Shared> shared_;
  std::optional<PackedPairs> pairs_;  ///< in place of the next two
  std::vector<float> packed_rows_;    ///< for each step of kDepth: panels of h_train, then of the difference
  std::vector<float> packed_tokens_;
  std::vector<double> z_, drift_;
  std::vector<float> wide_train_, wide_inf_, wide_hidden_;  ///< one row of hidden states or of a head
};

}  // namespace driftgate::gpu::fused
