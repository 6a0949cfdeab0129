#include <algorithm>

#include "gpu/capture/capture.hpp"

namespace driftgate::gpu {

namespace {

/// Advances a pointer by `rows` rows of `width` values; null stays null.
const std::byte* advanced(const std::byte* from, std::uint64_t rows, std::size_t width, DType dtype) {
  return from == nullptr ? nullptr : from + rows * width * size_bytes(dtype);
}

template <typename T>
void cut(std::vector<T>& values, std::uint64_t first, std::uint64_t count) {
  if (values.empty()) return;
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  values = std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

Capture Capture::slice(std::uint64_t first, std::uint64_t count) const {
  Capture out = *this;
  out.first_row_ += first;
  cut(out.token_ids_, first, count);
  cut(out.sequence_ids_, first, count);
  cut(out.positions_, first, count);
  cut(out.logprobs_, first, count);
  out.segments_.clear();
  for (const CaptureSegment& segment : segments_) {
    const std::uint64_t begin = std::max(first, segment.first_row);
    const std::uint64_t end = std::min(first + count, segment.first_row + segment.rows);
    if (begin >= end) continue;
    CaptureSegment& part = out.segments_.emplace_back(segment);
    const std::uint64_t skipped = begin - segment.first_row;
    part.first_row = begin - first;
    part.rows = end - begin;
    for (const std::byte** matrix : {&part.logits, &part.hidden}) {
      if (*matrix != nullptr) *matrix += skipped * segment.row_bytes;
    }
    part.list_ids = advanced(segment.list_ids, skipped, columns(), segment.id_dtype);
    part.list_logprobs = advanced(segment.list_logprobs, skipped, columns(), DType::f32);
  }
  return out;
}

}  // namespace driftgate::gpu
