#include "gpu/ranks/shard_choice.hpp"

#include <doctest/doctest.h>

using namespace driftgate::gpu;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

ShardFacts usual() {
  ShardFacts facts;
  facts.ranks = 4;
  facts.vocabulary = 131'072;
  facts.parts = 100;
  facts.row_pair_bytes = 2 << 20;
  facts.memory_bytes = 16 * kGiB;
  return facts;
}

void check(const ShardFacts& facts, Shard shard, const char* reason) {
  const ShardChoice choice = choose_shard(facts);
  CHECK(to_string(choice.shard) == to_string(shard));
  CHECK(choice.reason == reason);
}

}  // namespace

TEST_CASE("ranks share rows unless a row pair fits no rank, there are too few sequences, or rows are wanted") {
  check(usual(), Shard::rows, "whole sequences for each of 4 ranks; a row pair of 2.0 MiB fits the 16.0 GiB of a rank");
  ShardFacts facts = usual();
  facts.memory_bytes.reset();
  check(facts, Shard::rows, "whole sequences for each of 4 ranks");
  facts = usual();
  facts.row_pair_bytes = 17 * kGiB;
  check(facts, Shard::vocab, "a row pair of 17.0 GiB does not fit the 16.0 GiB of a rank");
  facts.memory_bytes = facts.row_pair_bytes;
  check(facts, Shard::rows, "whole sequences for each of 4 ranks; a row pair of 17.0 GiB fits the 17.0 GiB of a rank");
  facts = usual();
  facts.parts = 4;
  CHECK(choose_shard(facts).shard == Shard::rows);
  facts.parts = 3;
  check(facts, Shard::vocab, "the rows can be cut into 3 parts of whole sequences, fewer than 4 ranks");
  facts = usual();
  facts.wants_rows = true;
  check(facts, Shard::vocab, "the figures of single rows are wanted, which rank 0 has only in this way");
}

TEST_CASE("what cannot be cut by columns is shared by rows, whatever else holds") {
  ShardFacts facts = usual();
  facts.parts = 1;
  facts.row_pair_bytes = 17 * kGiB;
  facts.mode = CaptureMode::hidden;
  check(facts, Shard::rows, "a capture in hidden mode cannot be cut by columns");
  facts.mode = CaptureMode::full;
  facts.vocabulary = 3;
  check(facts, Shard::rows, "3 columns cannot be shared by 4 ranks");
}

TEST_CASE("memory is known of the CPU and shared by the ranks of a machine") {
  const auto one = memory_of_rank("cpu", 1), four = memory_of_rank("cpu", 4);
  REQUIRE(one);
  REQUIRE(four);
  CHECK(*four <= *one);
  CHECK(*four >= *one / 4);
  CHECK_FALSE(memory_of_rank("cuda:0", 1));
}
