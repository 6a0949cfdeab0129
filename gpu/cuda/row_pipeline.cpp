#include "gpu/cuda/row_pipeline.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace driftgate::gpu::cuda {

namespace {

constexpr std::uint64_t kAlignment = 16;  // of rows: the kernels load so many bytes at once
constexpr std::uint64_t kLeastCopyBytes = std::uint64_t{1} << 20;  // less is not worth a thread

std::uint64_t rounded_up(std::uint64_t bytes) {
  constexpr std::uint64_t kUnit = 256;
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

RowPipeline::Side RowPipeline::side_of(const driftgate_logits& logits, std::uint32_t vocabulary) {
  const std::uint64_t row_bytes = std::uint64_t{vocabulary} * element_bytes(logits.dtype);
  Side out{static_cast<const unsigned char*>(logits.data),         logits.row_stride_bytes, row_bytes,
           (row_bytes + kAlignment - 1) / kAlignment * kAlignment, place_of(logits.data),   false};
  out.aligned = reinterpret_cast<std::uintptr_t>(out.data) % kAlignment == 0 && out.stride % kAlignment == 0;
  return out;
}

std::uint64_t RowPipeline::rows_of_chunk(const driftgate_batch& batch, const Side& train,
                                         const Side& inf) const {
  // Logits that lie on the device need no copy: only records and results bound the chunk.
  const bool copied =
      !(train.place == Place::device && train.aligned && inf.place == Place::device && inf.aligned);
  const std::uint64_t by_bytes = copied ? kChunkBytes / (train.pitch + inf.pitch) : kMaxChunkRows;
  const std::uint64_t floor = std::max<std::uint64_t>(1, plan_.clusters);  // fill the device
  return std::min({std::max(by_bytes, floor), kMaxChunkRows, std::max<std::uint64_t>(batch.rows, 1)});
}

void RowPipeline::stage(const Side& side, std::uint64_t first, std::uint64_t rows, unsigned char* to) const {
  const auto copy = [&](std::uint64_t begin, std::uint64_t end) {
    if (side.stride == side.pitch) {
      std::memcpy(to + begin * side.pitch, side.data + (first + begin) * side.stride,
                  (end - begin) * side.pitch);
      return;
    }
    for (std::uint64_t row = begin; row < end; ++row) {
      std::memcpy(to + row * side.pitch, side.data + (first + row) * side.stride, side.row_bytes);
    }
  };
  const std::uint64_t useful = rows * side.pitch / kLeastCopyBytes;
  const std::uint64_t threads =
      std::clamp<std::uint64_t>(std::min({std::uint64_t{threads_}, rows, useful}), 1, kMaxCopyThreads);
  std::vector<std::thread> others;
  for (std::uint64_t i = 1; i < threads; ++i) {
    others.emplace_back(copy, rows * i / threads, rows * (i + 1) / threads);
  }
  copy(0, rows / threads);
  for (std::thread& other : others) other.join();
}

const unsigned char* RowPipeline::bring(Slot& slot, const Side& side, std::uint64_t first,
                                        std::uint64_t offset) {
  const unsigned char* const from = side.data + first * side.stride;
  if (side.place == Place::device && side.aligned) return from;
  unsigned char* const to = slot.device.as<unsigned char>() + offset;
  if (side.place == Place::device) {
    check(launch_align(from, side.stride, to, side.pitch, side.row_bytes, slot.rows, slot.stream.handle()),
          "the launch of align_rows");
  } else if (side.place == Place::pinned) {
    slot.stream.copy_rows_in(to, side.pitch, from, side.stride, side.row_bytes, slot.rows);
  } else {
    unsigned char* const staged = slot.host.as<unsigned char>() + offset;
    stage(side, first, slot.rows, staged);
    slot.stream.copy(to, staged, slot.rows * side.pitch);
  }
  return to;
}

BatchScratch RowPipeline::scratch_for(Slot& slot) const {
  BatchScratch out{};
  out.fast = plan_.clusters > 0;
  out.cluster = plan_.cluster;
  out.list_size = std::max<std::uint32_t>(top_k_, 2);
  const std::uint64_t rows = slot.rows, parts = out.fast ? rows * plan_.cluster : 0;
  const std::uint64_t wide = rounded_up(rows * sizeof(RowSums)), fast = rounded_up(rows * sizeof(FastRow));
  const std::uint64_t shares = rounded_up(parts * sizeof(FastPart));
  slot.scratch.reserve(wide + fast + shares + parts * 2 * out.list_size * sizeof(TopEntry));
  auto* const base = slot.scratch.as<unsigned char>();
  out.wide = reinterpret_cast<RowSums*>(base);
  out.rows = reinterpret_cast<FastRow*>(base + wide);
  out.parts = reinterpret_cast<FastPart*>(base + wide + fast);
  out.lists = reinterpret_cast<TopEntry*>(base + wide + fast + shares);
  return out;
}

void RowPipeline::start_chunk(Slot& slot, const driftgate_batch& batch, const Side& train, const Side& inf,
                              std::uint64_t first) {
  const std::uint64_t train_bytes = rounded_up(slot.rows * train.pitch);
  const std::uint64_t logits_bytes = train_bytes + rounded_up(slot.rows * inf.pitch);
  const std::uint64_t tokens_bytes = batch.tokens == nullptr ? 0 : slot.rows * sizeof(std::int64_t);
  const bool direct =
      train.place == Place::device && train.aligned && inf.place == Place::device && inf.aligned;
  const bool staged = train.place == Place::pageable || inf.place == Place::pageable;
  const std::uint64_t tokens_at = direct ? 0 : logits_bytes;
  slot.device.reserve(tokens_at + tokens_bytes);
  slot.host.reserve((staged ? logits_bytes : 0) + tokens_bytes);
  slot.device_results.reserve(slot.rows * sizeof(driftgate_row));
  slot.host_results.reserve(slot.rows * sizeof(driftgate_row));
  BatchView view = shape_;
  view.rows = slot.rows;
  view.train = bring(slot, train, first, 0);
  view.inf = bring(slot, inf, first, train_bytes);
  view.train_stride_bytes = view.train == train.data + first * train.stride ? train.stride : train.pitch;
  view.inf_stride_bytes = view.inf == inf.data + first * inf.stride ? inf.stride : inf.pitch;
  if (batch.tokens != nullptr) {
    auto* const tokens = slot.host.as<unsigned char>() + (staged ? logits_bytes : 0);
    std::memcpy(tokens, batch.tokens + first, tokens_bytes);
    slot.stream.copy(slot.device.as<unsigned char>() + tokens_at, tokens, tokens_bytes);
    view.tokens = reinterpret_cast<const std::int64_t*>(slot.device.as<unsigned char>() + tokens_at);
  }
  check(launch_batch(view, scratch_for(slot), plan_, slot.device_results.as<driftgate_row>(),
                     slot.stream.handle()),
        "the launch of the row kernels");
  slot.stream.copy(slot.host_results.as<void>(), slot.device_results.as<void>(),
                   slot.rows * sizeof(driftgate_row));
}

void RowPipeline::finish_chunk(Slot& slot) {
  if (slot.out == nullptr) return;
  driftgate_row* const out = slot.out;
  slot.out = nullptr;
  slot.stream.wait();
  std::memcpy(out, slot.host_results.as<void>(), slot.rows * sizeof(driftgate_row));
}

void RowPipeline::drain() {
  for (Slot& slot : slots_) {
    slot.out = nullptr;
    try {
      slot.stream.wait();
    } catch (const CudaError&) {
      continue;  // the first failure is the one to report
    }
  }
}

void RowPipeline::measure(const driftgate_batch& batch, driftgate_row* results) {
  if (batch.rows == 0) return;
  const Side train = side_of(batch.train, batch.vocabulary), inf = side_of(batch.inf, batch.vocabulary);
  shape_ = {};
  shape_.train_dtype = batch.train.dtype, shape_.inf_dtype = batch.inf.dtype;
  shape_.columns = batch.vocabulary, shape_.top_k = top_k_;
  shape_.temperature = batch.temperature;
  shape_.core = core_;
  check(plan_fast(shape_, plan_), "the occupancy of the row kernel");
  const std::uint64_t most = rows_of_chunk(batch, train, inf);
  try {
    std::size_t next = 0;
    for (std::uint64_t first = 0; first < batch.rows; first += most, next = (next + 1) % kSlots) {
      Slot& slot = slots_[next];
      finish_chunk(slot);
      slot.rows = std::min(most, batch.rows - first);
      start_chunk(slot, batch, train, inf, first);
      slot.out = results + first;
    }
    for (std::size_t i = 0; i < kSlots; ++i) finish_chunk(slots_[(next + i) % kSlots]);
  } catch (const CudaError&) {
    drain();  // nothing may still write into the caller's buffers or ours
    throw;
  }
}

}  // namespace driftgate::gpu::cuda
