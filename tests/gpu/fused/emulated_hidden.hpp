#pragma once

#include <vector>

#include "gpu/cuda/hidden_exact.hpp"
#include "gpu/cuda/hidden_finish.hpp"
#include "gpu/cuda/hidden_heads.hpp"
#include "gpu/cuda/hidden_pack.hpp"
#include "gpu/cuda/hidden_sweep.hpp"
#include "gpu/fused/device_heads.hpp"
#include "tests/gpu/emulated_gpu.hpp"
#include "tests/gpu/fused/hidden_case.hpp"

/// Rows of hidden states measured by the kernels of the CUDA backend over emulated threads.
namespace driftgate::gpu::test {

struct LinesMemory {
  std::vector<signed char> digits;
  std::vector<float> scales;
  cuda::DigitLines view{};
  void make(std::uint32_t lines, std::uint32_t width, bool columns) {
    const std::uint32_t padded = cuda::padded_lines(lines), chunks = cuda::chunks_of(width);
    digits.assign(std::size_t{padded} * chunks * cuda::kChunk * cuda::kDigitCount, 0x55);
    scales.assign(padded, -1.0F);
    view = {digits.data(), scales.data(), padded, chunks, columns};
  }
};

/// Runs `body(thread)` for each of `blocks` blocks, one after the other.
template <class Body>
void run_blocks(unsigned blocks, unsigned threads, std::size_t shared_bytes, std::uint64_t seed, Body body) {
  for (unsigned index = 0; index < blocks; ++index) {
    EmulatedCluster cluster(1, threads, 0, seed + index);
    cluster.give_shared(shared_bytes);
    cluster.run([&](EmulatedThread& thread) { body(thread, index, cluster); });
  }
}

/// Both heads as the device holds them.
struct EmulatedHeads {
  cuda::HeadsView view{};
  bool usable = true;

  EmulatedHeads(const fused::HeadPair& pair, std::uint64_t seed) {
    described_ = fused::device_heads(pair);
    const driftgate_hidden_heads& heads = described_;
    const bool capped = heads.train.soft_cap > 0 || heads.inf.soft_cap > 0;
    bias_ = cuda::narrow_bias(heads, capped);
    view = cuda::view_of(heads, bias_);
    if (!bias_.train.empty()) view.narrow_bias = bias_.train.data(), view.narrow_drift = bias_.drift.data();
    align(view.train, train_), align(view.inf, inf_);
    for (unsigned which = 0; which < (view.same ? 1U : 3U); ++which) {
      lines_[which].make(heads.columns, heads.width, true);
      std::vector<cuda::LineNorms> norms(heads.columns);
      const cuda::HeadsView& mine = view;
      run_blocks(lines_[which].view.lines, 32, sizeof(cuda::BlockShared), seed,
                 [&](EmulatedThread& thread, unsigned column, EmulatedCluster&) {
                   cuda::pack_column(thread, mine, which, column, lines_[which].view, norms.data());
                 });
      usable = cuda::mean_norms(norms.data(), heads.columns, view.square[which], view.unit2[which]) && usable;
    }
    view.train_digits = lines_[0].view, view.inf_digits = lines_[1].view, view.change_digits = lines_[2].view;
  }

 private:
  /// Weights at an even address, as the device has them.
  void align(cuda::HeadView& head, std::vector<cuda::Vector>& to) {
    const std::size_t bytes =
        std::size_t{described_.vocabulary} * view.width * cuda::element_bytes(head.dtype);
    to.resize((bytes + 15) / 16);
    std::memcpy(static_cast<void*>(to.data()), head.weight, bytes);
    head.weight = reinterpret_cast<const unsigned char*>(to.data());
  }
  driftgate_hidden_heads described_;
  cuda::NarrowBias bias_;
  std::vector<cuda::Vector> train_, inf_;
  LinesMemory lines_[3];
};

struct HiddenPlan {
  unsigned threads = 64;  ///< of the kernels but the sweeps
  std::uint32_t splits = 3, all_exact = 0;
  unsigned stages = 2;
};

struct HiddenOutcome {
  std::vector<driftgate_row> rows;
  std::vector<cuda::HiddenState> states;
  std::vector<cuda::HiddenInfo> info;
};

/// The kernels of a batch, one after the other, as hidden_kernels.cu launches them.
template <class Shape>
void run_batch(const cuda::HeadsView& heads, const cuda::HiddenBatch& batch,
               const cuda::HiddenScratch& scratch, const HiddenPlan& plan, std::uint64_t seed,
               driftgate_row* results) {
  using namespace cuda;
  const auto each_row = [&](std::uint32_t count, std::size_t bytes, auto body) {
    run_blocks(count, plan.threads, bytes, ++seed,
               [&](EmulatedThread& thread, unsigned row, EmulatedCluster&) { body(thread, row); });
  };
  const std::size_t behind = (sizeof(SweepShared<Shape>) + 15) / 16 * 16;
  const auto sweep = [&](auto kind) {
    const unsigned row_blocks = (batch.rows + Shape::kRows - 1) / Shape::kRows;
    run_blocks(row_blocks * scratch.splits, Shape::kThreads, behind + plan.stages * Shape::kStageBytes,
               ++seed, [&](EmulatedThread& thread, unsigned index, EmulatedCluster& cluster) {
                 sweep_rows<Shape, decltype(kind)::value>(thread, heads, batch, scratch,
                                                          index / scratch.splits, index % scratch.splits,
                                                          plan.stages, cluster.ring(behind));
               });
  };
  each_row(scratch.train_rows.lines, sizeof(BlockShared),
           [&](auto& t, unsigned row) { pack_row(t, heads, batch, scratch, row); });
  sweep(std::integral_constant<HiddenSweep, HiddenSweep::sample>{});
  each_row(batch.rows, sizeof(FrameShared),
           [&](auto& t, unsigned row) { frame_row(t, heads, batch, scratch, row); });
  sweep(std::integral_constant<HiddenSweep, HiddenSweep::first>{});
  each_row(batch.rows, sizeof(ExactShared),
           [&](auto& t, unsigned row) { exact_row(t, heads, batch, scratch, row); });
  each_row(batch.rows, sizeof(MergeShared),
           [&](auto& t, unsigned row) { merge_row(t, heads, batch, scratch, row); });
  sweep(std::integral_constant<HiddenSweep, HiddenSweep::second>{});
  each_row(batch.rows, sizeof(MergeShared),
           [&](auto& t, unsigned row) { finish_hidden_row(t, heads, batch, scratch, row, results[row]); });
}

template <class Shape>
HiddenOutcome run_hidden(const HiddenCase& test, const fused::HeadPair& pair, const EmulatedHeads& heads,
                         bool core, const HiddenPlan& plan, std::uint64_t seed) {
  using namespace cuda;
  const auto rows = static_cast<std::uint32_t>(test.rows());
  std::vector<Vector> train, inf;
  const auto stage = [&](const Stored& from, std::vector<Vector>& to) {
    to.resize((from.bytes.size() + 14) / 16);
    std::memcpy(static_cast<void*>(to.data()), from.bytes.data() + 1, from.bytes.size() - 1);
    return reinterpret_cast<const unsigned char*>(to.data());
  };
  const std::vector<std::int64_t> tokens(test.train.tokens.begin(), test.train.tokens.end());
  const std::vector<std::int32_t> columns =
      columns_of(pair.tokens.data(), heads.view.columns, tokens.data(), rows);
  const HiddenBatch batch{stage(test.train.hidden, train),
                          stage(test.inf.hidden, inf),
                          std::uint64_t{heads.view.width} * element_bytes(test.train.hidden.dtype),
                          std::uint64_t{heads.view.width} * element_bytes(test.inf.hidden.dtype),
                          test.train.hidden.dtype,
                          test.inf.hidden.dtype,
                          rows,
                          test.top_k,
                          columns.data(),
                          core};
  LinesMemory train_rows, drift_rows;
  train_rows.make(rows, heads.view.width, false), drift_rows.make(rows, heads.view.width, false);
  HiddenScratch scratch{};
  scratch.train_rows = train_rows.view, scratch.drift_rows = drift_rows.view;
  scratch.tiles = padded_lines(heads.view.columns) / Shape::kColumns;
  scratch.words = padded_lines(heads.view.columns) / 32;
  const SamplePlan sample = plan_sample(scratch.tiles, Shape::kAcross, std::max(test.top_k, 2U));
  scratch.step = sample.step, scratch.samples = sample.samples;
  scratch.splits = plan.splits, scratch.all_exact = plan.all_exact;
  HiddenOutcome out;
  out.rows.resize(rows), out.states.resize(rows), out.info.resize(rows);
  std::vector<HiddenFrame> frames(rows);
  std::vector<SamplePart> sampled(std::size_t{rows} * scratch.samples);
  std::vector<HiddenFirst> first(std::size_t{rows} * scratch.splits);
  std::vector<HiddenSecond> second(std::size_t{rows} * scratch.splits);
  std::vector<std::uint32_t> masks(std::size_t{rows} * scratch.words, 0xdeadbeefU);
  std::vector<HiddenColumn> exact(std::size_t{rows} * kMaxExact);
  scratch.info = out.info.data(), scratch.frames = frames.data(), scratch.sampled = sampled.data();
  scratch.first = first.data(), scratch.second = second.data(), scratch.masks = masks.data();
  scratch.exact = exact.data(), scratch.states = out.states.data();

  run_batch<Shape>(heads.view, batch, scratch, plan, seed, out.rows.data());
  return out;
}

}  // namespace driftgate::gpu::test
