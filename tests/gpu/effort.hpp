#pragma once

namespace driftgate::gpu {

/// How many of a property test's random cases run: an eighth under a sanitizer, which looks for other faults
/// and takes several times as long for each.
constexpr int effort(int cases) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (cases + 7) / 8;
#else
  return cases;
#endif
}

}  // namespace driftgate::gpu
