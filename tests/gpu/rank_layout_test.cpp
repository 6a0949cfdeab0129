#include "gpu/ranks/rank_layout.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace driftgate;
using namespace driftgate::gpu;

namespace {

std::set<std::int64_t> sequences(const std::vector<std::int64_t>& ids, Range range) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(range.begin),
          ids.begin() + static_cast<std::ptrdiff_t>(range.end)};
}

}  // namespace

TEST_CASE("a sequence is never split over ranks, even when its rows are interleaved with another's") {
  constexpr std::uint32_t kSeed = 5;
  CAPTURE(kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::int64_t> ids;
    for (int sequence = 0; sequence < 12; ++sequence) ids.insert(ids.end(), 1 + random() % 9, sequence);
    if (i % 3 == 0) std::swap(ids[random() % ids.size()], ids[random() % ids.size()]);
    const auto ranks = static_cast<std::uint32_t>(1 + random() % 6);
    const auto ranges = row_ranges(ids, ranks);
    REQUIRE(ranges.size() == ranks);
    CHECK(ranges.front().begin == 0);
    CHECK(ranges.back().end == ids.size());
    std::set<std::int64_t> seen;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank > 0) CHECK(ranges[rank].begin == ranges[rank - 1].end);
      for (const std::int64_t id : sequences(ids, ranges[rank])) CHECK(seen.insert(id).second);
    }
  }
}

TEST_CASE("rows are shared out as evenly as sequences allow") {
  const std::vector<std::int64_t> ids{0, 0, 0, 1, 1, 2, 2, 2, 2, 3};
  CHECK(row_ranges(ids, 2) == std::vector<Range>{{0, 5}, {5, 10}});
  CHECK(row_ranges(ids, 3) == std::vector<Range>{{0, 3}, {3, 5}, {5, 10}});
  CHECK(row_ranges({}, 2) == std::vector<Range>{{0, 0}, {0, 0}});
  const std::vector<std::int64_t> one(10, 7);
  CHECK(row_ranges(one, 2) == std::vector<Range>{{0, 10}, {10, 10}});
}

TEST_CASE("columns are split without gaps, in blocks of 64 when rows are long") {
  CHECK(*column_ranges(10, 3) == std::vector<Range>{{0, 3}, {3, 6}, {6, 10}});
  CHECK(*column_ranges(5, 5) == std::vector<Range>{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}});
  CHECK(*column_ranges(131'072, 2) == std::vector<Range>{{0, 65'536}, {65'536, 131'072}});
  const auto odd = *column_ranges(32'003, 3);
  CHECK(odd.back().end == 32'003);
  CHECK(odd[0].end % 64 == 0);
  CHECK(odd[1].begin == odd[0].end);
  const auto refused = column_ranges(4, 5);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("4 columns cannot be split over 5 ranks") != std::string::npos);
}
