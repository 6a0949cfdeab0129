#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::gpu {

/// [begin, end)
struct Range {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::uint64_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The rows before which the rows may be split, in order, from 0 to the number of rows: no earlier sequence
/// continues behind them.
[[nodiscard]] std::vector<std::uint64_t> row_partings(std::span<const std::int64_t> sequence_ids);

/// Contiguous rows for each of `ranks` ranks, as even as whole sequences allow. Sequences whose rows are
/// interleaved stay together; a rank may get no row.
[[nodiscard]] std::vector<Range> row_ranges(std::span<const std::int64_t> sequence_ids, std::uint32_t ranks);

/// Contiguous columns for each rank, equal up to one block of 64 columns for long rows and up to one column
/// for short ones. Errors: invalid_argument when there are more ranks than columns.
[[nodiscard]] schema::Result<std::vector<Range>> column_ranges(std::uint32_t vocabulary, std::uint32_t ranks);

}  // namespace driftgate::gpu
