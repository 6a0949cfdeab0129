#include "gpu/chunks/chunking.hpp"

#include <algorithm>

#include "gpu/capture/capture.hpp"

namespace driftgate::gpu {

namespace {

constexpr const char* kInterrupted = "the measurement was interrupted between two chunks";
/// The width of hidden states at which a logit costs about twice a stored one.
constexpr std::uint64_t kWidthOfOneRead = 128;

}  // namespace

schema::Error interrupted() {
  return {schema::ErrorCode::unavailable,
          std::string(kInterrupted) + "; what was measured is kept for the next start",
          {},
          nullptr};
}

bool is_interruption(const schema::Error& error) {
  return error.code == schema::ErrorCode::unavailable &&
         error.message.find(kInterrupted) != std::string::npos;
}

std::uint64_t rows_of_chunk(const Capture& capture, std::uint64_t bytes) {
  const std::uint64_t pair = std::uint64_t{2 * sizeof(float)} * std::max(1U, capture.vocabulary());
  const std::uint64_t cost =
      capture.mode() == CaptureMode::hidden ? 1 + capture.columns() / kWidthOfOneRead : 1;
  return std::max<std::uint64_t>(1, bytes / pair / cost);
}

std::vector<Range> chunk_ranges(std::span<const std::int64_t> sequence_ids, std::uint64_t rows) {
  std::vector<Range> out;
  std::uint64_t begin = 0;
  for (const std::uint64_t end : row_partings(sequence_ids)) {
    if (end - begin < rows && end != sequence_ids.size()) continue;
    if (end > begin) out.push_back({begin, end});
    begin = end;
  }
  return out;
}

}  // namespace driftgate::gpu
