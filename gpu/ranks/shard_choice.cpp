#include "gpu/ranks/shard_choice.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "gpu/ranks/rank_layout.hpp"

namespace driftgate::gpu {

namespace {

/// What the CPU engine keeps of each column between its passes: an exponential and a drift in float32.
constexpr std::uint64_t kKeptBytesOfColumn = 8;

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = std::uint64_t{1} << 30;
  if (bytes >= kGiB) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
}

/// The limit of the control group; absent where there is none ("max").
std::optional<std::uint64_t> group_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::uint64_t bytes = 0;
  return file >> bytes ? std::optional(bytes) : std::nullopt;
}

std::uint64_t width_of(const Capture& capture) {
  std::uint64_t widest = 0;
  for (const CaptureSegment& segment : capture.segments())
    widest = std::max<std::uint64_t>(widest, size_bytes(segment.dtype));
  return widest;
}

}  // namespace

std::string_view to_string(Shard shard) {
  return shard == Shard::rows ? "rows" : "vocab";
}

ShardChoice choose_shard(const ShardFacts& facts) {
  const bool large = facts.memory_bytes && facts.row_pair_bytes > *facts.memory_bytes;
  const std::string pair = fmt::format("a row pair of {}", size_text(facts.row_pair_bytes));
  const std::string of_rank =
      facts.memory_bytes ? fmt::format("the {} of a rank", size_text(*facts.memory_bytes)) : std::string();
  if (facts.mode != CaptureMode::full)
    return {Shard::rows, fmt::format("a capture in {} mode cannot be cut by columns", to_string(facts.mode))};
  if (facts.vocabulary < facts.ranks)
    return {Shard::rows,
            fmt::format("{} columns cannot be shared by {} ranks", facts.vocabulary, facts.ranks)};
  if (large) return {Shard::vocab, fmt::format("{} does not fit {}", pair, of_rank)};
  if (facts.parts < facts.ranks)
    return {Shard::vocab,
            fmt::format("the rows can be cut into {} parts of whole sequences, fewer than {} ranks",
                        facts.parts, facts.ranks)};
  if (facts.wants_rows)
    return {Shard::vocab, "the figures of single rows are wanted, which rank 0 has only in this way"};
  if (!facts.memory_bytes)
    return {Shard::rows, fmt::format("whole sequences for each of {} ranks", facts.ranks)};
  return {Shard::rows,
          fmt::format("whole sequences for each of {} ranks; {} fits {}", facts.ranks, pair, of_rank)};
}

ShardFacts shard_facts(const Capture& train, const Capture& inf, std::uint32_t ranks, bool wants_rows) {
  ShardFacts out;
  out.ranks = ranks;
  out.mode = train.mode();
  out.vocabulary = train.vocabulary();
  out.parts = row_partings(train.sequence_ids()).size() - 1;
  out.row_pair_bytes = (width_of(train) + width_of(inf) + kKeptBytesOfColumn) * train.vocabulary();
  out.wants_rows = wants_rows;
  return out;
}

std::optional<std::uint64_t> memory_of_rank(const std::string& device, std::uint32_t ranks) {
  if (device != "cpu") return std::nullopt;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return std::nullopt;
  std::uint64_t machine = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  if (const auto group = group_limit()) machine = std::min(machine, *group);
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::uint64_t share = machine / std::max(1U, ranks);
  return limited ? std::min<std::uint64_t>(share, limit.rlim_cur) : share;
}

}  // namespace driftgate::gpu
