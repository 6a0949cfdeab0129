#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/capture/capture.hpp"
#include "gpu/ranks/ranked_drift.hpp"

namespace driftgate::gpu {

/// How the work was shared, and why in that way: "whole sequences for each of 4 ranks".
struct ShardChoice {
  Shard shard = Shard::rows;
  std::string reason;
  bool operator==(const ShardChoice&) const = default;
};
[[nodiscard]] std::string_view to_string(Shard shard);  ///< "rows", "vocab"

/// What decides how ranks share the work.
struct ShardFacts {
  std::uint32_t ranks = 1;
  CaptureMode mode = CaptureMode::full;
  std::uint32_t vocabulary = 0;
  std::uint64_t parts = 0;           ///< into which the rows can be cut without cutting a sequence
  std::uint64_t row_pair_bytes = 0;  ///< a row of both kernels and what is kept of it
  /// Of the rank that has least; absent where it is not known.
  std::optional<std::uint64_t> memory_bytes;
  bool wants_rows = false;  ///< the figures of single rows
};

/// Rows by default, since ranks that share rows exchange almost nothing. The vocabulary where a row pair does
/// not fit the memory of a rank, where there are fewer sequences than ranks, and where the figures of single
/// rows are wanted, which rank 0 has only then. Never the vocabulary of what cannot be cut by columns.
[[nodiscard]] ShardChoice choose_shard(const ShardFacts& facts);

/// The facts about two captures; `memory_bytes` is left absent.
[[nodiscard]] ShardFacts shard_facts(const Capture& train, const Capture& inf, std::uint32_t ranks,
                                     bool wants_rows);

/// Memory of one of `ranks` ranks that share this machine and measure on `device`: of the CPU, the least of
/// the machine's, the control group's and the process's limit. Nothing for other devices, which read a row in
/// pieces.
[[nodiscard]] std::optional<std::uint64_t> memory_of_rank(const std::string& device, std::uint32_t ranks);

}  // namespace driftgate::gpu
