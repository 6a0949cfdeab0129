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
/// Limits, in bytes: packed hidden states of one block; all scratch of one thread except the top lists.
inline constexpr std::size_t kPackedBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxThreadBytes = kPackedBytes + (std::size_t{4} << 20);

/// The number of rows in a block for hidden states of this width: fewer for wide ones.
[[nodiscard]] std::size_t block_rows(const ProductKernel& kernel, std::uint32_t width);

/// Computes the products of a block of rows and a tile of tokens (docs/design/measurement.md, "Hidden
/// states"): W_train·h_train, and the drift scale_inf·W_inf·(h_train − h_inf) + (scale_train·W_train −
/// scale_inf·W_inf)·h_train, whose second term vanishes under one head. Products are summed in float32 over
/// steps of kDepth elements and in float64 beyond; the order of summation of an element depends only on the
/// width. With heads.pairs, bf16 elements are multiplied in pairs.
class BlockProduct {
 public:
  BlockProduct(const ProductKernel& kernel, const HeadPair& heads, std::size_t most_rows);

  /// Packs the rows. They must stay valid until the next call. Precondition: rows.size() ≤ most_rows.
  void set_rows(std::span<const HiddenRow> rows);
  /// Whether the hidden state of K_train, and that of K_inf, is finite; where it is not, the products of the
  /// row are 0.
  [[nodiscard]] bool finite_train(std::size_t row) const { return (flaws_[row] & 1U) == 0; }
  [[nodiscard]] bool finite_inf(std::size_t row) const { return (flaws_[row] & 2U) == 0; }

  /// Multiplies for tokens [first, first + count) of heads.tokens, count ≤ kTileTokens.
  void multiply(std::size_t first, std::size_t count);
  /// The results of the last `multiply` for a row: kTileTokens of each kind. The caller may modify them.
  [[nodiscard]] double* z(std::size_t row) { return z_.data() + row * kTileTokens; }
  [[nodiscard]] double* drift(std::size_t row) { return drift_.data() + row * kTileTokens; }

  struct Exact {
    double z, drift;
  };
  /// The same products for one row and token, computed in float64.
  [[nodiscard]] Exact exact(std::size_t row, std::uint32_t token);

  [[nodiscard]] std::size_t scratch_bytes() const;

 private:
  enum class Weight { train, inf, difference };
  void pack_row(std::size_t row);
  void pack_tokens(Weight weight, std::size_t first, std::size_t count, std::size_t from, std::size_t depth);
  /// Elements [from, from + depth) of the row of a token minus those of the centre; depth ≤ kDepth.
  void widen_token(Weight weight, std::uint32_t token, std::size_t from, std::size_t depth, float* to);
  struct Shared {
    double z, drift;
  };
  /// The contribution of the centres to every product of the row that was packed or loaded last.
  [[nodiscard]] Shared shared_part() const;
  void add_products(const float* packed, std::size_t depth, std::size_t tokens, double* to);

  const ProductKernel& kernel_;
  const HeadPair& heads_;
  std::size_t width_, panel_rows_, padded_rows_ = 0;
  std::span<const HiddenRow> rows_;
  std::vector<std::uint8_t> flaws_;
  std::vector<Shared> shared_;
  std::optional<PackedPairs> pairs_;  ///< replaces the next two members
  std::vector<float> packed_rows_;    ///< for each step of kDepth: panels of h_train, then of the difference
  std::vector<float> packed_tokens_;
  std::vector<double> z_, drift_;
  std::vector<float> wide_train_, wide_inf_, wide_hidden_;  ///< one row of hidden states or of a head
};

}  // namespace driftgate::gpu::fused
