#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/backend/backend.h"

namespace driftgate::gpu {

/// Makes whole rows of what several engines say of their columns (docs/design/measurement.md, "Rows split
/// over several engines"). A message of pass 1 holds the partials of a batch's rows and then their top
/// entries; one of pass 2 holds their terms. Messages of all ranks stand one after another, in rank order,
/// which is the order of the columns.
class ShardMerger {
 public:
  ShardMerger(std::uint32_t ranks, std::uint32_t top_k, double temperature)
      : ranks_(ranks), top_k_(top_k), places_(top_k < 2 ? 2 : top_k), temperature_(temperature) {}

  /// Bytes of one rank's message of pass 1.
  [[nodiscard]] std::size_t partial_bytes(std::uint64_t rows) const;
  [[nodiscard]] static std::span<driftgate_shard_partial> partials(std::span<std::byte> message,
                                                                   std::uint64_t rows);
  [[nodiscard]] std::span<driftgate_top_entry> top(std::span<std::byte> message, std::uint64_t rows) const;

  /// Merges the partials of `out.size()` rows: what every rank needs for pass 2. The same bytes on every
  /// rank.
  void merge(std::span<const std::byte> messages, std::span<driftgate_shard_row> out) const;
  /// Adds the terms and writes the rows' figures, all of backend.h.
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
