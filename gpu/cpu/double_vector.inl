// Vectors of eight doubles, in the vector extension that g++ and clang share: one vector where the
// instruction set has vectors of this length, else several shorter ones. (g++ could split a longer vector by
// itself, but splits its comparisons into single elements.) Each translation unit that includes this file
// compiles it for its own instruction set, so that everything here has internal linkage.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

#define DRIFTGATE_INLINE inline __attribute__((always_inline))

using f32x8 = float __attribute__((vector_size(32)));

#ifdef __AVX512F__
using f64x8 = double __attribute__((vector_size(64)));
using i64x8 = std::int64_t __attribute__((vector_size(64)));

DRIFTGATE_INLINE f64x8 load(const double* from) {
  f64x8 out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}
DRIFTGATE_INLINE void store(double* to, f64x8 value) {
  std::memcpy(to, &value, sizeof(value));
}
/// For each lane `yes` where the condition holds, else `no`.
DRIFTGATE_INLINE f64x8 select(i64x8 condition, f64x8 yes, f64x8 no) {
  return condition ? yes : no;
}
DRIFTGATE_INLINE f64x8 widen_floats(f32x8 v) {
  return __builtin_convertvector(v, f64x8);
}
/// The bits of x under `mask`.
DRIFTGATE_INLINE f64x8 masked_bits(f64x8 x, std::int64_t mask) {
  return reinterpret_cast<f64x8>(reinterpret_cast<i64x8>(x) & mask);
}
/// x·2^n, n in the low bits of `exponent`.
DRIFTGATE_INLINE f64x8 add_exponent(f64x8 x, f64x8 exponent) {
  return reinterpret_cast<f64x8>(reinterpret_cast<i64x8>(x) + (reinterpret_cast<i64x8>(exponent) << 52));
}
#else
#ifdef __AVX2__
constexpr std::size_t kPieceLanes = 4;
#else
constexpr std::size_t kPieceLanes = 2;
#endif
constexpr std::size_t kPieces = 8 / kPieceLanes;
using f64piece = double __attribute__((vector_size(8 * kPieceLanes)));
using i64piece = std::int64_t __attribute__((vector_size(8 * kPieceLanes)));
using f32piece = float __attribute__((vector_size(4 * kPieceLanes)));

struct i64x8 {
  i64piece part[kPieces];
  DRIFTGATE_INLINE std::int64_t operator[](std::size_t lane) const {
    return part[lane / kPieceLanes][lane % kPieceLanes];
  }
};
struct f64x8 {
  f64piece part[kPieces];
  DRIFTGATE_INLINE double operator[](std::size_t lane) const {
    return part[lane / kPieceLanes][lane % kPieceLanes];
  }
  DRIFTGATE_INLINE double& operator[](std::size_t lane) {
    return part[lane / kPieceLanes][lane % kPieceLanes];
  }
};

#define DRIFTGATE_EACH_PIECE(Out, expression)                                                 \
  Out out;                                                                                    \
  _Pragma("GCC unroll 4") for (std::size_t i = 0; i < kPieces; ++i) out.part[i] = expression; \
  return out

#define DRIFTGATE_OPERATOR(op, Out)                                  \
  DRIFTGATE_INLINE Out operator op(const f64x8& a, const f64x8& b) { \
    DRIFTGATE_EACH_PIECE(Out, a.part[i] op b.part[i]);               \
  }                                                                  \
  DRIFTGATE_INLINE Out operator op(const f64x8& a, double b) {       \
    DRIFTGATE_EACH_PIECE(Out, a.part[i] op(f64piece{} + b));         \
  }                                                                  \
  DRIFTGATE_INLINE Out operator op(double a, const f64x8& b) {       \
    DRIFTGATE_EACH_PIECE(Out, (f64piece{} + a) op b.part[i]);        \
  }
DRIFTGATE_OPERATOR(+, f64x8)
DRIFTGATE_OPERATOR(-, f64x8)
DRIFTGATE_OPERATOR(*, f64x8)
DRIFTGATE_OPERATOR(/, f64x8)
DRIFTGATE_OPERATOR(<, i64x8)
DRIFTGATE_OPERATOR(<=, i64x8)
DRIFTGATE_OPERATOR(>, i64x8)
#undef DRIFTGATE_OPERATOR

DRIFTGATE_INLINE f64x8 operator-(const f64x8& a) {
  DRIFTGATE_EACH_PIECE(f64x8, -a.part[i]);
}
DRIFTGATE_INLINE i64x8 operator|(const i64x8& a, const i64x8& b) {
  DRIFTGATE_EACH_PIECE(i64x8, a.part[i] | b.part[i]);
}
DRIFTGATE_INLINE f64x8& operator+=(f64x8& a, const f64x8& b) {
  return a = a + b;
}
DRIFTGATE_INLINE f64x8& operator/=(f64x8& a, double b) {
  return a = a / b;
}
/// Piece by piece: copying the whole would go through memory with loads and stores of different widths.
DRIFTGATE_INLINE f64x8 load(const double* from) {
  f64x8 out;
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kPieces; ++i)
    std::memcpy(&out.part[i], from + i * kPieceLanes, sizeof(f64piece));
  return out;
}
DRIFTGATE_INLINE void store(double* to, const f64x8& value) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kPieces; ++i)
    std::memcpy(to + i * kPieceLanes, &value.part[i], sizeof(f64piece));
}
DRIFTGATE_INLINE f64x8 select(const i64x8& condition, const f64x8& yes, const f64x8& no) {
  DRIFTGATE_EACH_PIECE(f64x8, condition.part[i] ? yes.part[i] : no.part[i]);
}
DRIFTGATE_INLINE f64x8 widen_floats(f32x8 v) {
#ifdef __AVX2__
  const f32piece low = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  const f32piece high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  return {__builtin_convertvector(low, f64piece), __builtin_convertvector(high, f64piece)};
#else
  f32piece two[kPieces];
  std::memcpy(two, &v, sizeof(v));
  DRIFTGATE_EACH_PIECE(f64x8, __builtin_convertvector(two[i], f64piece));
#endif
}
DRIFTGATE_INLINE f64x8 masked_bits(const f64x8& x, std::int64_t mask) {
  DRIFTGATE_EACH_PIECE(f64x8, reinterpret_cast<f64piece>(reinterpret_cast<i64piece>(x.part[i]) & mask));
}
DRIFTGATE_INLINE f64x8 add_exponent(const f64x8& x, const f64x8& exponent) {
  DRIFTGATE_EACH_PIECE(f64x8,
                       reinterpret_cast<f64piece>(reinterpret_cast<i64piece>(x.part[i]) +
                                                  (reinterpret_cast<i64piece>(exponent.part[i]) << 52)));
}
#undef DRIFTGATE_EACH_PIECE
#endif

}  // namespace
