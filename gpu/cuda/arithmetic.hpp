#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "gpu/backend/backend.h"

/// Arithmetic that every kernel of the CUDA backend uses. These headers are C++17 and compile for the device
/// (nvcc) and for the host, where tests run the same code over emulated threads.
/// Functions that one thread calls once for a row are DRIFTGATE_HD_COLD: not inlined, so that the sweeps over
/// columns have more registers.
#ifdef __CUDACC__
#define DRIFTGATE_HD __device__ __forceinline__
#define DRIFTGATE_HD_COLD __device__ __noinline__
#define DRIFTGATE_UNROLL _Pragma("unroll")
#define DRIFTGATE_NO_UNROLL _Pragma("unroll 1")
#else
#define DRIFTGATE_HD inline
#define DRIFTGATE_HD_COLD inline
#define DRIFTGATE_UNROLL
#define DRIFTGATE_NO_UNROLL
#endif

namespace driftgate::gpu::cuda {

constexpr float kLog2e = 1.44269504088896341F;

DRIFTGATE_HD float bits_to_float(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
#endif
}
DRIFTGATE_HD std::uint32_t float_to_bits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  std::uint32_t out;
  std::memcpy(&out, &value, sizeof(out));
  return out;
#endif
}

/// 2^x with a relative error of at most 2^-22, the bound that PTX states for ex2.approx. On the host the full
/// error is applied, with a sign that depends on the bits of x, so that tests see the worst case of a device.
DRIFTGATE_HD float exp2_fast(float x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  if (x == 0.0F) return 1.0F;
  const std::uint32_t mixed = float_to_bits(x) * 2654435761U;
  const float out = std::exp2(x) * (1.0F + ((mixed >> 31) != 0 ? 0x1p-22F : -0x1p-22F));
  return out < 0x1p-126F ? 0.0F : out;
#endif
}

/// The larger of two numbers; NaN when one of them is NaN.
DRIFTGATE_HD float max_or_nan(float a, float b) {
#ifdef __CUDA_ARCH__
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
#else
  return a != a || b != b ? a + b : (a > b ? a : b);
#endif
}
DRIFTGATE_HD float larger(float a, float b) {
  return fmaxf(a, b);
}
DRIFTGATE_HD float smaller(float a, float b) {
  return fminf(a, b);
}

/// IEEE binary16, exactly.
DRIFTGATE_HD float half_to_float(std::uint32_t half) {
#ifdef __CUDA_ARCH__
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(static_cast<std::uint16_t>(half)));
  return out;
#else
  const std::uint32_t sign = (half & 0x8000U) << 16;
  std::uint32_t rest = float_to_bits(bits_to_float((half & 0x7fffU) << 13) * 0x1p112F);
  if ((half & 0x7c00U) == 0x7c00U) rest |= 0x7f800000U;
  return bits_to_float(sign | rest);
#endif
}

/// Sixteen bytes of a row: the size of every load.
struct alignas(16) Vector {
  std::uint32_t words[4];
};

constexpr std::uint32_t element_bytes(std::uint32_t dtype) {
  return dtype == DRIFTGATE_F32 ? 4 : 2;
}
template <std::uint32_t Dtype>
constexpr unsigned kLanes = 16 / element_bytes(Dtype);

template <std::uint32_t Dtype>
DRIFTGATE_HD void unpack(const Vector& from, float (&to)[kLanes<Dtype>]) {
  DRIFTGATE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t word = from.words[i];
    if constexpr (Dtype == DRIFTGATE_F32) {
      to[i] = bits_to_float(word);
    } else if constexpr (Dtype == DRIFTGATE_BF16) {
      to[2 * i] = bits_to_float(word << 16);
      to[2 * i + 1] = bits_to_float(word & 0xffff0000U);
    } else {
      to[2 * i] = half_to_float(word & 0xffffU);
      to[2 * i + 1] = half_to_float(word >> 16);
    }
  }
}

/// One element of a row that is aligned as its type.
DRIFTGATE_HD float load_element(const unsigned char* row, std::uint32_t dtype, std::uint64_t column) {
  if (dtype == DRIFTGATE_F32) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, __builtin_assume_aligned(row + 4 * column, 4), sizeof(bits));
    return bits_to_float(bits);
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, __builtin_assume_aligned(row + 2 * column, 2), sizeof(bits));
  return dtype == DRIFTGATE_F16 ? half_to_float(bits) : bits_to_float(static_cast<std::uint32_t>(bits) << 16);
}

template <int K>
struct InverseFactorial {
  static constexpr double value = InverseFactorial<K - 1>::value / K;
};
template <>
struct InverseFactorial<0> {
  static constexpr double value = 1;
};

/// Number of terms of the power series in float32, by the size of the drift: every smooth figure of a row is
/// a sum of Σ e·d^k for k = 2 … kMost, and expm1(−d) has as many terms. Truncation error: less than 5e-8 of
/// the value.
template <int Level>
struct Series;
template <>
struct Series<0> {
  static constexpr int kMost = 5;
  static constexpr float kSize = 0.0625F;
};
template <>
struct Series<1> {
  static constexpr int kMost = 7;
  static constexpr float kSize = 0.25F;
};
template <>
struct Series<2> {
  static constexpr int kMost = 11;
  static constexpr float kSize = 1.0F;
};
constexpr int kMostMoment = Series<2>::kMost;

template <int K>
struct MinusExpm1 {  // coefficient of x^K in expm1(−x)
  static constexpr float value = static_cast<float>((K % 2 == 0 ? 1.0 : -1.0) * InverseFactorial<K>::value);
};
/// Σ_{k = K}^{Most} (−1)^k x^{k−K}/k!
template <int K, int Most>
DRIFTGATE_HD float alternating(float x) {
  if constexpr (K == Most) {
    return MinusExpm1<K>::value;
  } else {
    return fmaf(alternating<K + 1, Most>(x), x, MinusExpm1<K>::value);
  }
}
/// expm1(−x) and φ(−x) = expm1(−x) + x for |x| ≤ Series<Level>::kSize.
template <int Level>
DRIFTGATE_HD float expm1_minus(float x) {
  return x * alternating<1, Series<Level>::kMost>(x);
}
template <int Level>
DRIFTGATE_HD float phi_minus(float x, float x_squared) {
  return x_squared * alternating<2, Series<Level>::kMost>(x);
}

template <int K>
DRIFTGATE_HD double exponential_tail(double x) {  // Σ_{k = K}^{20} x^{k−K}/k!
  if constexpr (K == 20) {
    return InverseFactorial<K>::value;
  } else {
    return std::fma(exponential_tail<K + 1>(x), x, InverseFactorial<K>::value);
  }
}
/// φ(x) = e^x − 1 − x in float64, without cancellation.
DRIFTGATE_HD double phi(double x) {
  return std::fabs(x) > 1 ? std::expm1(x) - x : x * x * exponential_tail<2>(x);
}

}  // namespace driftgate::gpu::cuda
