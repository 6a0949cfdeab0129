#include "gpu/cuda/row_pipeline.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace driftgate::gpu::cuda {

namespace {

constexpr std::uint64_t kAlignment = 16;  // of rows, in bytes: the size of the loads of the kernels
constexpr std::uint64_t kLeastCopyBytes = std::uint64_t{1} << 20;  // smaller copies are not worth a thread

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

std::uint64_t RowPipeline::rows_of_chunk(const driftgate_batch& batch) const {
  // Logits in device memory need no copy, so that only records and results limit the chunk.
  const bool copied = !(train_.direct() && inf_.direct());
  const std::uint64_t by_bytes = copied ? kChunkBytes / (train_.pitch + inf_.pitch) : kMaxChunkRows;
  return std::min({std::max<std::uint64_t>(by_bytes, 1), kMaxChunkRows, batch.rows});
}

RowPipeline::Layout RowPipeline::layout_of(std::uint64_t rows) const {
  Layout out;
  out.inf = train_.direct() ? 0 : rounded_up(rows * train_.pitch);
  out.tokens = out.inf + (inf_.direct() ? 0 : rounded_up(rows * inf_.pitch));
  out.merged = out.tokens + (has_tokens_ ? rounded_up(rows * sizeof(std::int64_t)) : 0);
  out.end = out.merged + (shape_.mode == Mode::shard_second ? rows * sizeof(driftgate_shard_row) : 0);
  out.results_end = rows * sizeof(driftgate_row);
  if (shape_.mode == Mode::shard_second) out.results_end = rows * sizeof(driftgate_shard_terms);
  if (shape_.mode == Mode::shard_first) {
    out.top = rounded_up(rows * sizeof(driftgate_shard_partial));
    out.results_end = out.top + rows * 2 * std::max<std::uint32_t>(top_k_, 2) * sizeof(driftgate_top_entry);
  }
  return out;
}

void RowPipeline::stage(const Side& side, std::uint64_t first, std::uint64_t rows, unsigned char* to) const {
  const auto copy = [&](std::uint64_t begin, std::uint64_t end) {
    if (side.stride == side.pitch && side.row_bytes == side.pitch) {
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
  std::vector<std::jthread> others;  // joined even when starting one of them fails
  for (std::uint64_t i = 1; i < threads; ++i) {
    others.emplace_back(copy, rows * i / threads, rows * (i + 1) / threads);
  }
  copy(0, rows / threads);
}

const unsigned char* RowPipeline::bring(Slot& slot, const Side& side, std::uint64_t offset) const {
  const unsigned char* const from = side.data + slot.first * side.stride;
  if (side.direct()) return from;
  unsigned char* const to = slot.device.as<unsigned char>() + offset;
  if (side.place == Place::device) {
    check(launch_align(from, side.stride, to, side.pitch, side.row_bytes, slot.rows, slot.stream.handle()),
          "the launch of align_rows");
  } else if (side.place == Place::pinned) {
    slot.stream.copy_rows_in(to, side.pitch, from, side.stride, side.row_bytes, slot.rows);
  } else {
    unsigned char* const staged = slot.host.as<unsigned char>() + offset;
    stage(side, slot.first, slot.rows, staged);
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

void RowPipeline::start_chunk(Slot& slot, const driftgate_batch& batch, const Job& job) {
  const Layout layout = layout_of(slot.rows);
  slot.device.reserve(layout.end);
  slot.host.reserve(layout.end);
  slot.device_results.reserve(layout.results_end);
  slot.host_results.reserve(layout.results_end);
  auto* const host = slot.host.as<unsigned char>();
  auto* const device = slot.device.as<unsigned char>();
  auto* const results = slot.device_results.as<unsigned char>();
  BatchView view = shape_;
  view.rows = slot.rows;
  view.train = bring(slot, train_, 0);
  view.inf = bring(slot, inf_, layout.inf);
  view.train_stride_bytes = train_.direct() ? train_.stride : train_.pitch;
  view.inf_stride_bytes = inf_.direct() ? inf_.stride : inf_.pitch;
  if (has_tokens_) {
    std::memcpy(host + layout.tokens, batch.tokens + slot.first, slot.rows * sizeof(std::int64_t));
    view.tokens = reinterpret_cast<const std::int64_t*>(device + layout.tokens);
  }
  BatchScratch scratch = scratch_for(slot);
  if (job.shard != nullptr) scratch.shard.first_column = job.shard->first_column;
  if (job.mode == Mode::shard_second) {
    std::memcpy(host + layout.merged, job.merged + slot.first, slot.rows * sizeof(driftgate_shard_row));
    scratch.shard.merged = reinterpret_cast<const driftgate_shard_row*>(device + layout.merged);
    scratch.shard.terms = reinterpret_cast<driftgate_shard_terms*>(results);
  } else if (job.mode == Mode::shard_first) {
    scratch.shard.partials = reinterpret_cast<driftgate_shard_partial*>(results);
    scratch.shard.top = reinterpret_cast<driftgate_top_entry*>(results + layout.top);
  }
  if (layout.end > layout.tokens) {
    slot.stream.copy(device + layout.tokens, host + layout.tokens, layout.end - layout.tokens);
  }
  check(launch_batch(view, scratch, plan_, reinterpret_cast<driftgate_row*>(results), slot.stream.handle()),
        "the launch of the row kernels");
  slot.stream.copy(slot.host_results.as<void>(), results, layout.results_end);
}

void RowPipeline::finish_chunk(Slot& slot, const Job& job) const {
  if (slot.rows == 0) return;
  slot.stream.wait();
  const std::uint64_t first = slot.first, rows = slot.rows;
  const auto* const from = slot.host_results.as<unsigned char>();
  slot.rows = 0;
  if (job.mode == Mode::shard_second) {
    std::memcpy(job.terms + first, from, rows * sizeof(driftgate_shard_terms));
    return;
  }
  if (job.mode != Mode::shard_first) {
    std::memcpy(job.rows + first, from, rows * sizeof(driftgate_row));
    return;
  }
  const std::uint64_t places = std::max<std::uint32_t>(top_k_, 2);
  driftgate_top_entry* const top = job.top + first * 2 * places;
  std::memcpy(job.partials + first, from, rows * sizeof(driftgate_shard_partial));
  std::memcpy(top, from + layout_of(rows).top, rows * 2 * places * sizeof(driftgate_top_entry));
  for (std::uint64_t i = 0; i < 2 * rows; ++i) {
    // The float64 form writes its entries unsorted.
    const driftgate_shard_partial& partial = job.partials[first + i / 2];
    driftgate_top_entry* const list = top + i * places;
    std::sort(list, list + (i % 2 == 0 ? partial.top_train : partial.top_inf),
              [](const driftgate_top_entry& a, const driftgate_top_entry& b) {
                return a.value > b.value || (a.value == b.value && a.id < b.id);
              });
  }
}

void RowPipeline::run(const driftgate_batch& batch, const Job& job) {
  if (batch.rows == 0) return;
  train_ = side_of(batch.train, batch.vocabulary), inf_ = side_of(batch.inf, batch.vocabulary);
  has_tokens_ = batch.tokens != nullptr && job.mode != Mode::shard_second;
  shape_ = {};
  shape_.train_dtype = batch.train.dtype, shape_.inf_dtype = batch.inf.dtype;
  shape_.columns = batch.vocabulary, shape_.top_k = top_k_;
  shape_.temperature = batch.temperature;
  shape_.mode = job.mode;
  check(plan_fast(shape_, plan_), "the occupancy of the row kernel");
  const std::uint64_t most = rows_of_chunk(batch);
  try {
    std::size_t next = 0;
    for (std::uint64_t first = 0; first < batch.rows; first += most, next = (next + 1) % kSlots) {
      Slot& slot = slots_[next];
      finish_chunk(slot, job);
      slot.first = first;
      slot.rows = std::min(most, batch.rows - first);
      start_chunk(slot, batch, job);
    }
    for (std::size_t i = 0; i < kSlots; ++i) finish_chunk(slots_[(next + i) % kSlots], job);
  } catch (...) {
    drain(slots_);  // no copy or kernel may still write to any buffer
    throw;
  }
}

}  // namespace driftgate::gpu::cuda
