#include "gpu/cuda/hidden_pipeline.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace driftgate::gpu::cuda {

namespace {

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string((bytes + (std::uint64_t{1} << 20) - 1) >> 20) + " MiB";
}

std::uint64_t weight_bytes(const driftgate_hidden_heads& heads, const driftgate_head_weight& weight) {
  return std::uint64_t{heads.vocabulary} * heads.width * element_bytes(weight.dtype);
}

void fill(driftgate_row* rows, std::uint64_t count, std::uint32_t status) {
  for (std::uint64_t i = 0; i < count; ++i) {
    for (double& value : rows[i].values) value = NAN;
    rows[i].values[DRIFTGATE_ROW_VALUES - 1] = 0;  // nonfinite
    rows[i].status = status;
    rows[i].reserved = 0;
    rows[i].head_tail_tv = rows[i].top_train = rows[i].top_inf = NAN;
  }
}

}  // namespace

HiddenPipeline::HiddenPipeline(const driftgate_hidden_heads& heads, std::uint32_t top_k, bool core)
    : top_k_(top_k),
      vocabulary_(heads.vocabulary),
      core_(core),
      tokens_(heads.tokens, heads.tokens + heads.columns) {
  if (heads.columns == 0) return;
  check(plan_hidden(layout_), "the layout of the product kernel");
  const bool capped = heads.train.soft_cap > 0 || heads.inf.soft_cap > 0;
  const NarrowBias bias = narrow_bias(heads, capped);
  view_ = view_of(heads, bias);
  const std::uint64_t row_bytes = std::uint64_t{heads.width} * (2 * sizeof(float) + 2 * kDigitCount);
  const auto fitting = static_cast<std::uint32_t>(kRowBytes / row_bytes) / kLinePadding * kLinePadding;
  most_rows_ = std::clamp(fitting, kLinePadding, kMostRows);
  Cutter counted(nullptr);
  place_heads(heads, counted);
  head_bytes_ = counted.used();
  if (const std::uint64_t free = free_bytes(); head_bytes_ + scratch_bytes() > free) {
    throw CudaError("the heads of these hidden states take " + mebibytes(head_bytes_) +
                    " of device memory, and " + mebibytes(scratch_bytes()) +
                    " of scratch are needed besides; " + mebibytes(free) +
                    " are free: measure them with --device cpu or on a larger device");
  }
  heads_.reserve(head_bytes_);
  bring_heads(heads, bias);
  pack_heads();
}

DigitLines HiddenPipeline::take_lines(Cutter& cutter, std::uint32_t lines, bool columns) const {
  DigitLines out{};
  out.columns = columns;
  out.lines = padded_lines(lines);
  out.chunks = chunks_of(view_.width);
  out.digits = cutter.take<signed char>(std::uint64_t{out.lines} * out.chunks * kChunk * kDigitCount);
  out.scales = cutter.take<float>(out.lines);
  return out;
}

void HiddenPipeline::place_heads(const driftgate_hidden_heads& heads, Cutter& cutter) {
  view_.tokens = cutter.take<std::uint32_t>(heads.columns);
  const bool bias = heads.bias_train != nullptr;
  view_.bias_train = bias ? cutter.take<double>(heads.columns) : nullptr;
  view_.bias_drift = bias ? cutter.take<double>(heads.columns) : nullptr;
  view_.narrow_bias = bias ? cutter.take<float>(padded_lines(heads.columns)) : nullptr;
  view_.narrow_drift = bias ? cutter.take<float>(padded_lines(heads.columns)) : nullptr;
  view_.train.weight = cutter.take<unsigned char>(weight_bytes(heads, heads.train));
  view_.train.centre = cutter.take<float>(heads.width);
  view_.inf.weight = view_.train.weight, view_.inf.centre = view_.train.centre;
  view_.train_digits = take_lines(cutter, heads.columns, true);
  if (view_.same) return;
  view_.inf.weight = cutter.take<unsigned char>(weight_bytes(heads, heads.inf));
  view_.inf.centre = cutter.take<float>(heads.width);
  view_.inf_digits = take_lines(cutter, heads.columns, true);
  view_.change_digits = take_lines(cutter, heads.columns, true);
}

void HiddenPipeline::bring_heads(const driftgate_hidden_heads& heads, const NarrowBias& bias) {
  Cutter cutter(heads_.as<unsigned char>());
  place_heads(heads, cutter);
  Stream& stream = slots_[0].stream;
  const auto bring = [&](const void* to, const void* from, std::uint64_t bytes) {
    stream.copy(const_cast<void*>(to), from, bytes);
  };
  bring(view_.tokens, heads.tokens, heads.columns * sizeof(std::uint32_t));
  if (heads.bias_train != nullptr) {
    bring(view_.bias_train, heads.bias_train, heads.columns * sizeof(double));
    bring(view_.bias_drift, heads.bias_drift, heads.columns * sizeof(double));
    bring(view_.narrow_bias, bias.train.data(), bias.train.size() * sizeof(float));
    bring(view_.narrow_drift, bias.drift.data(), bias.drift.size() * sizeof(float));
  }
  bring(view_.train.weight, heads.train.weight, weight_bytes(heads, heads.train));
  bring(view_.train.centre, heads.train.centre, heads.width * sizeof(float));
  if (!view_.same) {
    bring(view_.inf.weight, heads.inf.weight, weight_bytes(heads, heads.inf));
    bring(view_.inf.centre, heads.inf.centre, heads.width * sizeof(float));
  }
  stream.wait();  // after this, no memory of the caller is read
}

void HiddenPipeline::pack_heads() {
  Stream& stream = slots_[0].stream;
  Buffer norms(Where::device), read(Where::pinned);
  const std::uint64_t bytes = view_.columns * sizeof(LineNorms);
  norms.reserve(bytes);
  read.reserve(bytes);
  const DigitLines* const lines[] = {&view_.train_digits, &view_.inf_digits, &view_.change_digits};
  for (unsigned which = 0; which < (view_.same ? 1U : 3U); ++which) {
    check(launch_pack_head(view_, which, *lines[which], norms.as<LineNorms>(), stream.handle()),
          "the launch of the head's packing");
    stream.copy(read.as<void>(), norms.as<void>(), bytes);
    stream.wait();
    const bool finite =
        mean_norms(read.as<LineNorms>(), view_.columns, view_.square[which], view_.unit2[which]);
    usable_ = usable_ && finite;
  }
}

HiddenScratch HiddenPipeline::scratch_of(std::uint32_t rows, Cutter& cutter) const {
  HiddenScratch out{};
  const std::uint32_t row_blocks = (rows + layout_.rows - 1) / layout_.rows;
  out.tiles = padded_lines(view_.columns) / layout_.columns;
  out.words = padded_lines(view_.columns) / 32;
  const SamplePlan sample = plan_sample(out.tiles, layout_.parts_of_tile, std::max(top_k_, 2U));
  out.step = sample.step, out.samples = sample.samples;
  out.splits = std::clamp(layout_.blocks / row_blocks, 1U, out.tiles);
  out.all_exact = kAllExact;
  out.train_rows = take_lines(cutter, rows, false), out.drift_rows = take_lines(cutter, rows, false);
  out.info = cutter.take<HiddenInfo>(rows);
  out.frames = cutter.take<HiddenFrame>(rows);
  out.sampled = cutter.take<SamplePart>(std::uint64_t{rows} * out.samples);
  out.first = cutter.take<HiddenFirst>(std::uint64_t{rows} * out.splits);
  out.second = cutter.take<HiddenSecond>(std::uint64_t{rows} * out.splits);
  out.masks = cutter.take<std::uint32_t>(std::uint64_t{rows} * out.words);
  out.exact = cutter.take<HiddenColumn>(std::uint64_t{rows} * kMaxExact);
  out.states = cutter.take<HiddenState>(rows);
  return out;
}

std::uint64_t HiddenPipeline::scratch_bytes() const {
  if (view_.columns == 0) return 0;
  Cutter counted(nullptr);
  scratch_of(most_rows_, counted);
  const std::uint64_t rows =
      std::uint64_t{most_rows_} * (2 * sizeof(float) * view_.width + sizeof(std::int32_t));
  return kSlots * (counted.used() + rows + most_rows_ * sizeof(driftgate_row));
}

const unsigned char* HiddenPipeline::bring_rows(Slot& slot, const driftgate_logits& from,
                                                std::uint64_t offset) const {
  const std::uint64_t bytes = std::uint64_t{view_.width} * element_bytes(from.dtype);
  const auto* const first = static_cast<const unsigned char*>(from.data) + slot.first * from.row_stride_bytes;
  unsigned char* const to = slot.device.as<unsigned char>() + offset;
  if (place_of(from.data) != Place::pageable) {
    slot.stream.copy_rows_in(to, bytes, first, from.row_stride_bytes, bytes, slot.rows);
    return to;
  }
  unsigned char* const staged = slot.host.as<unsigned char>() + offset;
  for (std::uint32_t row = 0; row < slot.rows; ++row) {
    std::memcpy(staged + row * bytes, first + row * from.row_stride_bytes, bytes);
  }
  slot.stream.copy(to, staged, slot.rows * bytes);
  return to;
}

void HiddenPipeline::start_chunk(Slot& slot, const driftgate_hidden_batch& batch) {
  const std::uint64_t side = std::uint64_t{slot.rows} * view_.width * sizeof(float);
  const std::uint64_t columns = 2 * side, end = columns + slot.rows * sizeof(std::int32_t);
  slot.host.reserve(end);
  slot.device.reserve(end);
  slot.device_results.reserve(slot.rows * sizeof(driftgate_row));
  slot.host_results.reserve(slot.rows * sizeof(driftgate_row));
  Cutter counted(nullptr);
  scratch_of(slot.rows, counted);
  slot.scratch.reserve(counted.used());
  Cutter cutter(slot.scratch.as<unsigned char>());
  const HiddenScratch scratch = scratch_of(slot.rows, cutter);

  HiddenBatch rows{};
  rows.train = bring_rows(slot, batch.train, 0), rows.inf = bring_rows(slot, batch.inf, side);
  rows.train_dtype = batch.train.dtype, rows.inf_dtype = batch.inf.dtype;
  rows.train_stride_bytes = std::uint64_t{view_.width} * element_bytes(batch.train.dtype);
  rows.inf_stride_bytes = std::uint64_t{view_.width} * element_bytes(batch.inf.dtype);
  rows.rows = slot.rows, rows.top_k = top_k_, rows.core = core_;
  if (batch.tokens != nullptr) {
    const auto found = columns_of(tokens_.data(), view_.columns, batch.tokens + slot.first, slot.rows);
    std::memcpy(slot.host.as<unsigned char>() + columns, found.data(), found.size() * sizeof(std::int32_t));
    slot.stream.copy(slot.device.as<unsigned char>() + columns, slot.host.as<unsigned char>() + columns,
                     found.size() * sizeof(std::int32_t));
    rows.columns = reinterpret_cast<const std::int32_t*>(slot.device.as<unsigned char>() + columns);
  }
  auto* const results = slot.device_results.as<driftgate_row>();
  check(launch_hidden(view_, rows, scratch, layout_, results, slot.stream.handle()),
        "the launch of the kernels of hidden states");
  slot.stream.copy(slot.host_results.as<void>(), results, slot.rows * sizeof(driftgate_row));
}

void HiddenPipeline::finish_chunk(Slot& slot, driftgate_row* results) const {
  if (slot.rows == 0) return;
  slot.stream.wait();
  std::memcpy(results + slot.first, slot.host_results.as<void>(), slot.rows * sizeof(driftgate_row));
  slot.rows = 0;
}

void HiddenPipeline::run(const driftgate_hidden_batch& batch, driftgate_row* results) {
  if (tokens_.empty()) return fill(results, batch.rows, DRIFTGATE_ROW_ALL_MASKED);
  if (!usable_) return fill(results, batch.rows, DRIFTGATE_ROW_NOT_MEASURED);
  try {
    std::size_t next = 0;
    for (std::uint64_t first = 0; first < batch.rows; first += most_rows_, next = (next + 1) % kSlots) {
      Slot& slot = slots_[next];
      finish_chunk(slot, results);
      slot.first = first;
      slot.rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(most_rows_, batch.rows - first));
      start_chunk(slot, batch);
    }
    for (std::size_t i = 0; i < kSlots; ++i) finish_chunk(slots_[(next + i) % kSlots], results);
  } catch (...) {
    drain(slots_);  // no copy or kernel may still write to any buffer
    throw;
  }
}

}  // namespace driftgate::gpu::cuda
