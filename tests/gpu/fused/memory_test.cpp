#include <doctest/doctest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "gpu/drift.hpp"
#include "tests/gpu/fused/hidden_case.hpp"

/// Bytes that this program holds by `new`, and the most that it ever held.
namespace {

std::atomic<std::size_t> held{0}, most{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  void* memory = alignment == 0 ? std::malloc(bytes) : std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  const std::size_t now = held += malloc_usable_size(memory);
  std::size_t before = most;
  while (before < now && !most.compare_exchange_weak(before, now)) {
  }
  return memory;
}

void released(void* memory) {
  if (memory == nullptr) return;
  held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return counted((bytes + step - 1) / step * step, step);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return counted(bytes, 0);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  released(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  released(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  released(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  released(memory);
}

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

/// What a measurement allocates beyond what it began with.
std::size_t peak_bytes(std::uint32_t vocabulary, std::uint32_t width, std::size_t rows,
                       std::uint32_t threads) {
  HiddenCase test;
  test.head_train = {vocabulary, width, {}, {}, 1, 0};
  test.head_train.weight = store(std::vector<double>(std::size_t{vocabulary} * width, 0.25), DRIFTGATE_BF16);
  test.head_inf = test.head_train;
  test.train.width = test.inf.width = width;
  test.train.hidden = store(std::vector<double>(rows * width, 0.5), DRIFTGATE_BF16);
  test.inf.hidden = test.train.hidden;
  test.train.sequences.assign(rows, 0);
  test.train.tokens.assign(rows, 1);
  test.inf.sequences = test.train.sequences;
  test.inf.tokens = test.train.tokens;
  const TemporaryFolder folder;
  const OpenedCase opened = open_case(test, folder);
  MeasureOptions options;
  options.threads = threads;
  const std::size_t before = held;
  most = before;
  REQUIRE(measure(opened.train, opened.inf, nullptr, options));
  return most - before;
}

}  // namespace

TEST_CASE("memory is at most a twentieth of the logits that are not stored") {
  constexpr std::uint32_t kVocabulary = 32'000, kWidth = 256, kRows = 1'024;
  const std::size_t bytes = peak_bytes(kVocabulary, kWidth, kRows, 2);
  const std::size_t stored = std::size_t{2} * kRows * kVocabulary * 2;  // both kernels' bf16
  CAPTURE(bytes);
  CAPTURE(stored);
  CHECK(bytes * 20 <= stored);
  CHECK(bytes > 100'000);  // the counter works
}

TEST_CASE("scratch does not grow with the rows nor, beyond its bound, with the width") {
  // Tokens' ids and the rows' figures come on top of what the threads hold.
  constexpr std::size_t kBeside = std::size_t{4} << 20;
  CHECK(peak_bytes(300, 512, 20'000, 2) <= 2 * fused::kMaxThreadBytes + kBeside);
  CHECK(peak_bytes(300, 65'536, 40, 2) <= 2 * fused::kMaxThreadBytes + kBeside);
}
