#pragma once
/// Inner loops of the engine, compiled once for each instruction set and chosen at start.
/// Results of different instruction sets agree up to float32 rounding; integers are exact.

#include <cstddef>

namespace tinylm {

/// Columns of a packed weight panel; outputs are padded to a multiple of it.
inline constexpr std::size_t kPanel = 16;

struct Attention {
  const float* query;   ///< [head_dim]
  const float* keys;    ///< [count] rows of `stride` floats
  const float* values;  ///< [count] rows of `stride` floats
  std::size_t count, stride, head_dim;
  std::size_t splits;  ///< the keys are summed in this many parts
  bool round_probabilities;
  float* scores;  ///< [count] of scratch
  float* out;     ///< [head_dim]
};

struct Kernels {
  const char* name;
  /// y[rows, out] = x[rows, in] * W, W packed as [out / kPanel][in][kPanel]. The sum over `in` is
  /// taken in blocks of `block` (0: four interleaved chains), so its rounding depends on `block`.
  void (*matmul)(const float* x, const float* packed, float* y, std::size_t rows, std::size_t in,
                 std::size_t out, std::size_t block);
  void (*attend)(const Attention& job);
  /// Rounds to bfloat16, ties to even, and keeps float32 storage.
  void (*round_bf16)(float* x, std::size_t n);
  /// Symmetric int8 with one scale for the row; returns the scale.
  float (*quantise_row)(const float* x, float* q, std::size_t n);
  /// Symmetric int8 with one fixed scale per channel, widened again: round(x / scale) clipped to
  /// [-127, 127], times scale.
  void (*quantise_static)(const float* x, const float* inverse_scale, const float* scale, float* out,
                          std::size_t n);
  /// silu(gate) * up, gate in x[0, n), up in x[n, 2n), result in out[0, n).
  void (*silu_mul)(const float* x, float* out, std::size_t n);
  void (*rms_norm)(const float* x, const float* weight, float eps, float* out, std::size_t n);
};

/// The best kernels that this processor runs; the environment variable TINYLM_ISA (baseline, avx2, avx512)
/// overrides the choice.
const Kernels& kernels();

}  // namespace tinylm
