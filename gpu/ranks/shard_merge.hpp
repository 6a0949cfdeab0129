#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/backend/backend.h"

namespace driftgate::gpu {

/// Merges the results of several engines, each for its own columns, into whole rows
/// (docs/design/measurement.md, "Rows split over several engines"). A message of pass 1 holds the partial
/// sums of the rows of a batch and then their top entries; a message of pass 2 holds their terms. The
/// messages of all ranks follow one another in rank order, which is the order of the columns.
class ShardMerger {
 public:
  ShardMerger(std::uint32_t ranks, std::uint32_t top_k, double temperature)
      : ranks_(ranks), top_k_(top_k), places_(top_k < 2 ? 2 : top_k), temperature_(temperature) {}

  /// The size of the message of one rank in pass 1, in bytes.
  [[nodiscard]] std::size_t partial_bytes(std::uint64_t rows) const;
  [[nodiscard]] static std::span<driftgate_shard_partial> partials(std::span<std::byte> message,
                                                                   std::uint64_t rows);
  [[nodiscard]] std::span<driftgate_top_entry> top(std::span<std::byte> message, std::uint64_t rows) const;

  /// Merges the partial sums of `out.size()` rows into the input of pass 2. Every rank computes the same
  /// bytes.
  void merge(std::span<const std::byte> messages, std::span<driftgate_shard_row> out) const;
  /// Adds the terms of pass 2 and writes all figures of the rows.
  void finish(std::span<const std::byte> messages, std::span<const driftgate_shard_row> merged,
              std::span<const driftgate_shard_terms> terms, std::span<driftgate_row> out) const;

 private:
  struct View;  ///< one row of all messages
  void merge_row(const View& row, driftgate_shard_row& out) const;
  void finish_row(const View& row, const driftgate_shard_row& merged,
                  std::span<const driftgate_shard_terms> terms, driftgate_row& out) const;

  std::uint32_t ranks_, top_k_, places_;
  double temperature_;
};

}  // namespace driftgate::gpu
