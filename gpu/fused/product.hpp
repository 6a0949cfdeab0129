#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cpu/tile_kernel.hpp"

/// The vector code for hidden states: products of hidden states and a head. Each instruction set has a
/// translation unit that compiles gpu/fused/product_kernel.inl into such a table.
namespace driftgate::gpu::fused {

/// Number of elements that are summed in float32 before the sum goes on in float64: the relative rounding
/// error of a sum stays near 3e-7 for any width.
inline constexpr std::size_t kDepth = 128;

/// The hidden states of one row in both captures; any alignment.
struct HiddenRow {
  const unsigned char* train;
  const unsigned char* inf;
  std::uint32_t train_dtype, inf_dtype;
};

/// The largest logits of a tile.
struct TileTop {
  double z, y;
};

/// How products become logits: x = scale·(W·h + bias), then cap·tanh(x/cap), then divided by the temperature.
struct LogitShape {
  double scale_train = 1;
  double cap_train = 0, cap_inf = 0;  ///< 0: no soft-cap
  double temperature = 1;
};

struct ProductKernel {
  const char* name;
  std::uint32_t rows, columns;  ///< of the register block that `multiply` makes
  /// c[i·stride + j] += Σ_k a[k·rows + i]·b[k·columns + j] for `depth` ≤ kDepth terms in float32.
  void (*multiply)(const float* a, const float* b, std::size_t depth, double* c, std::size_t stride);
  /// Converts elements of type DRIFTGATE_F32, F16 or BF16 to floats, exactly; any alignment.
  void (*widen)(const unsigned char* from, std::uint32_t dtype, std::size_t count, float* to);
  /// The same minus `centre`.
  void (*widen_less)(const unsigned char* from, std::uint32_t dtype, std::size_t count, const float* centre,
                     float* to);
  /// Σ h_train[k]·w[k] and Σ (h_train[k] − h_inf[k])·w[k] in float64; w as for `widen`.
  void (*dots)(const HiddenRow& row, const unsigned char* w, std::uint32_t dtype, std::size_t count,
               double* train, double* drift);
  /// In place: W·h of K_train becomes its logit z, and the drift x_train − x_inf without bias becomes z − y,
  /// both divided by the temperature. `bias_train` and `bias_drift` hold scale·bias of K_train and its
  /// difference from that of K_inf. Returns the number of logits of both kernels that are not finite before
  /// the soft-cap; if there are none, `top` is written. The buffers have room for whole vectors of 8.
  std::uint64_t (*form)(double* z, double* drift, const double* bias_train, const double* bias_drift,
                        std::size_t count, const LogitShape& shape, TileTop& top);
  /// Writes the columns with z > floor.z or z − drift > floor.y, in ascending order, and returns their
  /// number.
  std::size_t (*above)(const double* z, const double* drift, std::size_t count, const TileTop& floor,
                       std::uint32_t* columns);
  const cpu::TileKernel* tiles;  ///< the float64 row kernel of the same instruction set
};

/// Multiplies pairs of bf16 numbers, each pair in 32 bits, on processors with AVX512_BF16.
struct PairKernel {
  /// One term of the sums below: pair `a` of each row with pair `b` of each token.
  struct Term {
    std::uint8_t a, b;
  };
  const char* name;
  std::uint32_t rows, columns;  ///< of the register block
  /// c[i·stride + j] += Σ over the terms, in their order and in float32, of both products of the pairs
  /// a[term.a·rows + i] and b[term.b·columns + j].
  void (*multiply)(const std::uint32_t* a, const std::uint32_t* b, const Term* terms, std::size_t count,
                   double* c, std::size_t stride);
};

extern const ProductKernel kPortableProduct;
#ifdef DRIFTGATE_X86
extern const ProductKernel kAvx2Product;
extern const ProductKernel kAvx512Product;
extern const PairKernel kAvx512Pairs;
#endif

/// The fastest kernel that this processor runs.
[[nodiscard]] const ProductKernel& best_product();
/// The kernel for pairs of bf16; null where the processor has none.
[[nodiscard]] const PairKernel* best_pairs();

}  // namespace driftgate::gpu::fused
