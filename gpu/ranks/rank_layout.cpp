#include "gpu/ranks/rank_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace driftgate::gpu {

namespace {

constexpr std::uint64_t kBlockColumns = 64;
constexpr std::uint64_t kLeastBlocks =
    32;  ///< of a rank; from this number on, one block more or less makes little difference

std::uint64_t nearest(const std::vector<std::uint64_t>& sorted, std::uint64_t wanted) {
  const auto after = std::ranges::lower_bound(sorted, wanted);
  if (after == sorted.begin()) return *after;
  if (after == sorted.end()) return sorted.back();
  const std::uint64_t before = *std::prev(after);
  return wanted - before < *after - wanted ? before : *after;
}

}  // namespace

std::vector<std::uint64_t> row_partings(std::span<const std::int64_t> sequence_ids) {
  std::unordered_map<std::int64_t, std::uint64_t> last;
  for (std::uint64_t row = 0; row < sequence_ids.size(); ++row) last[sequence_ids[row]] = row;
  std::vector<std::uint64_t> out;
  std::uint64_t open_until = 0;
  for (std::uint64_t row = 0; row < sequence_ids.size(); ++row) {
    if (row >= open_until) out.push_back(row);
    open_until = std::max(open_until, last[sequence_ids[row]] + 1);
  }
  out.push_back(sequence_ids.size());
  return out;
}

std::vector<Range> row_ranges(std::span<const std::int64_t> sequence_ids, std::uint32_t ranks) {
  const std::vector<std::uint64_t> allowed = row_partings(sequence_ids);
  const std::uint64_t rows = sequence_ids.size();
  std::vector<Range> out;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t begin = rank == 0 ? 0 : out.back().end;
    const std::uint64_t end = rank + 1 == ranks ? rows : nearest(allowed, rows * (rank + 1) / ranks);
    out.push_back({begin, std::max(begin, end)});
  }
  return out;
}

schema::Result<std::vector<Range>> column_ranges(std::uint32_t vocabulary, std::uint32_t ranks) {
  if (ranks > vocabulary) {
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("a vocabulary of {} columns cannot be split over {} ranks", vocabulary, ranks));
  }
  const std::uint64_t block = vocabulary / ranks >= kBlockColumns * kLeastBlocks ? kBlockColumns : 1;
  std::vector<Range> out;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t end =
        rank + 1 == ranks ? vocabulary : vocabulary * (rank + 1) / ranks / block * block;
    out.push_back({rank == 0 ? 0 : out.back().end, end});
  }
  return out;
}

}  // namespace driftgate::gpu
