// libFuzzer reads coverage as clang writes it; g++ only calls a function on each edge. Here those calls
// become libFuzzer's extra counters, so that the one compiler of this project also fuzzes.
#include <cstddef>
#include <cstdint>

extern "C" {

[[gnu::section("__libfuzzer_extra_counters")]] std::uint8_t driftgate_edges[1u << 16];

[[gnu::no_sanitize("address", "undefined")]] void __sanitizer_cov_trace_pc() {
  const auto caller = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++driftgate_edges[(caller ^ (caller >> 16)) & 0xffff];
}

/// libFuzzer has no use for comparisons of floating-point numbers.
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}

/// Programs without libFuzzer have no use for the others either.
[[gnu::weak]] void __sanitizer_cov_trace_cmp1(std::uint8_t, std::uint8_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_cmp2(std::uint16_t, std::uint16_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_cmp4(std::uint32_t, std::uint32_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_cmp8(std::uint64_t, std::uint64_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_const_cmp1(std::uint8_t, std::uint8_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_const_cmp2(std::uint16_t, std::uint16_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_const_cmp4(std::uint32_t, std::uint32_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_const_cmp8(std::uint64_t, std::uint64_t) {}
[[gnu::weak]] void __sanitizer_cov_trace_switch(std::uint64_t, std::uint64_t*) {}
}
