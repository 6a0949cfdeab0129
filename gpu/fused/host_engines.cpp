#include "gpu/fused/host_engines.hpp"

#include <algorithm>
#include <thread>

namespace driftgate::gpu::fused {

namespace {

std::uint32_t backend_dtype(DType dtype) {
  if (dtype == DType::f32) return DRIFTGATE_F32;
  return dtype == DType::f16 ? DRIFTGATE_F16 : DRIFTGATE_BF16;
}

}  // namespace

std::uint64_t HiddenCursor::available(std::uint64_t row) {
  while (row >= segment().first_row + segment().rows) ++at_;
  return segment().first_row + segment().rows - row;
}

std::pair<const unsigned char*, std::uint32_t> HiddenCursor::at(std::uint64_t row) {
  while (row >= segment().first_row + segment().rows) ++at_;
  const std::byte* from = segment().hidden + (row - segment().first_row) * segment().row_bytes;
  return {reinterpret_cast<const unsigned char*>(from), backend_dtype(segment().dtype)};
}

HostEngines::HostEngines(const HeadPair& heads, const MeasureOptions& options, std::uint32_t threads,
                         std::uint64_t rows) {
  const std::uint64_t most = std::min<std::uint64_t>(block_rows(best_product(), heads.train->width()),
                                                     (rows + threads - 1) / threads);
  const std::uint64_t needed = std::min<std::uint64_t>(threads, (rows + most - 1) / most);
  for (std::uint64_t i = 0; i < needed; ++i) {
    engines_.push_back(std::make_unique<FusedRows>(best_product(), heads, options.top_k, options.metrics,
                                                   static_cast<std::size_t>(most)));
  }
  batch_ = most * needed;
}

void HostEngines::measure(std::span<const HiddenRow> rows, const std::int64_t* tokens,
                          std::span<driftgate_row> out) {
  const auto work = [&](std::size_t thread) {
    const std::size_t begin = out.size() * thread / engines_.size();
    const std::size_t end = out.size() * (thread + 1) / engines_.size();
    engines_[thread]->measure(rows.subspan(begin, end - begin), tokens == nullptr ? nullptr : tokens + begin,
                              out.subspan(begin, end - begin));
  };
  std::vector<std::jthread> others;
  for (std::size_t thread = 1; thread < engines_.size(); ++thread) others.emplace_back(work, thread);
  work(0);
}

}  // namespace driftgate::gpu::fused
