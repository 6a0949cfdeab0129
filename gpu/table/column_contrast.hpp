#pragma once

#include <cstdint>
#include <vector>

namespace driftgate::gpu {

/// How z − y (K_train's logit less K_inf's) differs from the middle of its row, over some entries.
struct OffsetSums {
  std::uint64_t n = 0, above = 0;  ///< above: those over the middle
  double sum = 0, squares = 0;
  void add(double offset) {
    ++n;
    above += offset > 0 ? 1 : 0;
    sum += offset;
    squares += offset * offset;
  }
};

/// Where in the vocabulary the drift is: compares columns with each other, to recognise faults of a range of
/// columns and of tokens that were there before (docs/drift.md, "Diagnosis"). The middle of a row is that of
/// the shortest interval with half of its blocks' means of z − y.
struct ColumnContrast {
  std::uint64_t rows = 0;
  std::vector<OffsetSums> blocks;  ///< of adjacent columns, as many in each but the last; at most 256
  std::uint32_t block_columns = 0;
  OffsetSums before;  ///< tokens that were target tokens of earlier rows of the same sequence
  OffsetSums others;  ///< the other tokens of rows that have such tokens
};

}  // namespace driftgate::gpu
