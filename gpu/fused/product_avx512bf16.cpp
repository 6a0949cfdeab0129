#include <immintrin.h>

#include "gpu/fused/product.hpp"

// Products of pairs of bf16 by AVX512_BF16: VDPBF16PS multiplies exactly, adds in float32 and takes
// subnormal numbers for 0.
namespace driftgate::gpu::fused {

namespace {

constexpr std::size_t kFloats = 16, kRows = 14, kVectors = 2;
constexpr std::size_t kColumns = kVectors * kFloats;

void add_wide(__m512 part, double* to) {
  const __m256 low = _mm512_castps512_ps256(part), high = _mm512_extractf32x8_ps(part, 1);
  _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), _mm512_cvtps_pd(low)));
  _mm512_storeu_pd(to + 8, _mm512_add_pd(_mm512_loadu_pd(to + 8), _mm512_cvtps_pd(high)));
}

// Every loop over `sums` is unrolled, because g++ 12 otherwise keeps them in memory.
void multiply(const std::uint32_t* a, const std::uint32_t* b, const PairKernel::Term* terms,
              std::size_t count, double* c, std::size_t stride) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm512_setzero_ps();
  for (std::size_t k = 0; k < count; ++k) {
    const std::uint32_t* right = b + terms[k].b * kColumns;
    const std::uint32_t* rows = a + terms[k].a * kRows;
    const auto first = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right));
    const auto second = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right + kFloats));
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kRows; ++i) {
      const auto left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(rows[i])));
      sums[i][0] = _mm512_dpbf16_ps(sums[i][0], left, first);
      sums[i][1] = _mm512_dpbf16_ps(sums[i][1], left, second);
    }
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kRows; ++i) {
    add_wide(sums[i][0], c + i * stride);
    add_wide(sums[i][1], c + i * stride + kFloats);
  }
}

}  // namespace

extern const PairKernel kAvx512Pairs;
const PairKernel kAvx512Pairs = {"avx512 bf16", kRows, kColumns, multiply};

}  // namespace driftgate::gpu::fused
