#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace driftgate::stages {

/// A well-mixed image of `x`: the finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

/// A seeded generator of random numbers (xoshiro256**; Blackman & Vigna, ACM TOMS 2021). Unlike the
/// distributions of the standard library, it gives the same numbers on every platform.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) {
    for (auto& word : state_) word = mix64(seed++);
  }

  [[nodiscard]] constexpr std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1), with a resolution of 53 bits.
  [[nodiscard]] constexpr double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  /// Uniform in [0, bound) without bias: draws below 2^64 mod bound are repeated.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t reject = (0 - bound) % bound;
    std::uint64_t draw = next();
    while (draw < reject) draw = next();
    return draw % bound;
  }

  /// A uniform random permutation (Fisher–Yates).
  template <typename T>
  constexpr void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_[4] = {};
};

}  // namespace driftgate::stages
