// The NCCL library on one device, with one rank. What takes several ranks, or one that fails, is tested over
// headers that stand for NCCL's in nccl/nccl_collective_test.cpp.

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "gpu/ranks/thread_ranks.hpp"
#include "tests/gpu/cuda_device.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::chrono::milliseconds kTimeout{60'000};

/// One rank over NCCL, or none and a line that says why.
std::unique_ptr<Collective> one_rank(Collective& bootstrap) {
  auto opened = open_nccl(bootstrap, 0, kTimeout, nccl_library());
  if (opened) return std::move(*opened);
  REQUIRE_MESSAGE(opened.error().code == schema::ErrorCode::unavailable, opened.error().message);
  MESSAGE("no-nccl: this test was skipped (" << opened.error().message << ")");
  return nullptr;
}

}  // namespace

TEST_CASE("one rank over NCCL exchanges bytes of any number with itself") {
  if (!device(10)) return;
  const auto threads = make_thread_collectives(1);
  const auto nccl = one_rank(*threads.front());
  if (!nccl) return;
  CHECK(nccl->name() == "nccl");
  CHECK(nccl->rank() == 0);
  CHECK(nccl->size() == 1);
  const Wait wait{"a test", kTimeout};
  for (const std::size_t count : {std::size_t{1}, std::size_t{5} << 20, std::size_t{1'000}}) {
    CAPTURE(count);
    std::vector<unsigned char> mine(count);
    std::iota(mine.begin(), mine.end(), static_cast<unsigned char>(count));
    const auto bytes = std::as_bytes(std::span(mine));
    std::vector<unsigned char> all(count), gathered(count), told = mine;
    auto ok = nccl->all_gather(wait, bytes, std::as_writable_bytes(std::span(all)));
    REQUIRE_MESSAGE(ok, ok.error().message);
    CHECK(all == mine);
    ok = nccl->gather(wait, bytes, std::as_writable_bytes(std::span(gathered)));
    REQUIRE_MESSAGE(ok, ok.error().message);
    CHECK(gathered == mine);
    ok = nccl->broadcast(wait, std::as_writable_bytes(std::span(told)));
    REQUIRE_MESSAGE(ok, ok.error().message);
    CHECK(told == mine);
  }
  const auto texts = nccl->gather_text(wait, "a table");
  REQUIRE_MESSAGE(texts, texts.error().message);
  CHECK(*texts == std::vector<std::string>{"a table"});
}

TEST_CASE("a rank over NCCL that gave up exchanges nothing any more") {
  if (!device(10)) return;
  const auto threads = make_thread_collectives(1);
  const auto nccl = one_rank(*threads.front());
  if (!nccl) return;
  nccl->leave({schema::ErrorCode::internal, "a test", {}, nullptr});
  std::vector<unsigned char> mine(1'000), all(1'000);
  const auto refused = nccl->all_gather({"a test", kTimeout}, std::as_bytes(std::span(mine)),
                                        std::as_writable_bytes(std::span(all)));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("has left") != std::string::npos);
}
