#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/drift.hpp"
#include "gpu/fused/fused_rows.hpp"

namespace driftgate::gpu::fused {

/// Walks through the hidden states of a capture in row order.
class HiddenCursor {
 public:
  explicit HiddenCursor(const Capture& capture) : capture_(capture) {}
  /// The number of rows, from `row` on, that are contiguous in memory.
  std::uint64_t available(std::uint64_t row);
  /// The hidden states of a row and their type (DRIFTGATE_F32 …). Calls must not go back to earlier rows.
  std::pair<const unsigned char*, std::uint32_t> at(std::uint64_t row);
  /// From a row to the next one, where the last call of `available` or `at` looked; rows in memory may be
  /// apart.
  [[nodiscard]] std::uint64_t row_bytes() const { return segment().row_bytes; }

 private:
  [[nodiscard]] const CaptureSegment& segment() const { return capture_.segments()[at_]; }
  const Capture& capture_;
  std::size_t at_ = 0;
};

/// Evaluates rows of hidden states on the CPU, divided among several threads.
class HostEngines {
 public:
  /// For batches of at most `rows` rows. `heads` must outlive it.
  HostEngines(const HeadPair& heads, const MeasureOptions& options, std::uint32_t threads,
              std::uint64_t rows);
  /// The largest number of rows in one call.
  [[nodiscard]] std::uint64_t batch() const { return batch_; }
  /// `tokens` may be null. Precondition: rows.size() == out.size(), at most `batch()`.
  void measure(std::span<const HiddenRow> rows, const std::int64_t* tokens, std::span<driftgate_row> out);

 private:
  std::uint64_t batch_ = 0;
  std::vector<std::unique_ptr<FusedRows>> engines_;  // one for each thread
};

}  // namespace driftgate::gpu::fused
