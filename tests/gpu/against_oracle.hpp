#pragma once

#include <doctest/doctest.h>

#include <cstdint>

#include "tests/gpu/kernels.hpp"
#include "tests/gpu/random_rows.hpp"

namespace driftgate::gpu::test {

/// Requires the figures of `wanted` of every kernel, for the case that `seed` gives as its `index`-th.
inline void require_figures(const Row& wanted, const Case& test, std::uint64_t seed, int index,
                            std::uint32_t metrics = DRIFTGATE_METRICS_ALL) {
  for (const cpu::TileKernel* kernel : kernels()) {
    CAPTURE(kernel->name);
    CAPTURE(seed);
    CAPTURE(index);
    CAPTURE(test.text);
    const driftgate_row row = evaluate(*kernel, test, metrics);
    REQUIRE(row.status == DRIFTGATE_ROW_OK);
    REQUIRE(disagreement(wanted, row.values) == "");
  }
}

}  // namespace driftgate::gpu::test
