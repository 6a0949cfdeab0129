#pragma once

#include "gpu/cuda/hidden_digits.hpp"

/// Determines the parameters of the sweeps over a row from a sample of its columns.
namespace driftgate::gpu::cuda {

constexpr unsigned kFrameThreads = 128;
constexpr unsigned kSeenOnce = 8;     ///< the parts with the most mass are not extrapolated
constexpr double kLeastRest = 1e-12;  ///< lower bound of the share of the mass outside the most likely token
/// A margin below the share of mass that requires float64, because the sample gives only an estimate.
constexpr double kAim = 0.25;
constexpr float kTieMargin = 1e-5F;  ///< logits so close to the k-th largest may be among the k

struct FrameShared {
  BlockShared block;
  float kth[2];
};

/// For one kernel: the k-th largest of the maxima of the sampled parts, which is no larger than the k-th
/// largest logit, and the logarithm of the mass outside the most likely token.
struct SampleView {
  float kth;
  double log_rest;
};
template <class Ctx, class Top, class Mass>
DRIFTGATE_HD SampleView judge_sample(Ctx& ctx, std::uint32_t parts, std::uint32_t step, std::uint32_t k,
                                     unsigned kernel, Top&& top, Mass&& mass) {
  FrameShared& shared = ctx.template shared<FrameShared>();
  if (ctx.thread() == 0) shared.kth[kernel] = -HUGE_VALF;
  double most[1] = {-HUGE_VAL};
  for (std::uint32_t i = ctx.thread(); i < parts; i += ctx.threads()) {
    most[0] = std::fmax(most[0], static_cast<double>(top(i)));
  }
  block_reduce<1>(ctx, shared.block, most);
  const auto weight = [&](std::uint32_t i) {
    return static_cast<double>(mass(i)) * std::exp(static_cast<double>(top(i)) - most[0]);
  };
  double rest[1] = {0};
  for (std::uint32_t i = ctx.thread(); i < parts; i += ctx.threads()) {
    const float own_top = top(i);
    if (!(own_top > -HUGE_VALF)) continue;  // a part without columns
    const double own = weight(i);
    std::uint32_t above = 0, heavier = 0;
    for (std::uint32_t j = 0; j < parts; ++j) {
      const float other = top(j);
      if (!(other > -HUGE_VALF)) continue;
      above += other > own_top || (other == own_top && j < i) ? 1U : 0U;
      // Only the parts with the most mass are ranked: parts far below them cannot be among them.
      if (heavier > kSeenOnce) continue;
      const double others = weight(j);
      heavier += others > own || (others == own && j < i) ? 1U : 0U;
    }
    if (above + 1 == k) shared.kth[kernel] = own_top;
    rest[0] += heavier == 0 ? 0.0 : heavier < kSeenOnce ? own : own * step;
  }
  block_reduce<0>(ctx, shared.block, rest);
  return {shared.kth[kernel], most[0] + std::log(std::fmax(rest[0], kLeastRest))};
}

DRIFTGATE_HD float floor_of(const SampleView& sample) {
  const double heavy = sample.log_rest + std::log(kExactShare * kAim);
  const float close = sample.kth - kTieMargin * (1 + fabsf(sample.kth));
  return static_cast<float>(std::fmin(heavy, static_cast<double>(close)));
}

template <class Ctx>
DRIFTGATE_HD void frame_row(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch,
                            const HiddenScratch& scratch, std::uint32_t row) {
  FrameShared& shared = ctx.template shared<FrameShared>();
  const SamplePart* parts = scratch.sampled + std::uint64_t{row} * scratch.samples;
  const std::uint32_t k = batch.top_k < 2 ? 2 : batch.top_k;
  const SampleView z = judge_sample(
      ctx, scratch.samples, scratch.step, k, 0, [&](std::uint32_t i) { return parts[i].top_z; },
      [&](std::uint32_t i) { return parts[i].mass_z; });
  const SampleView y = judge_sample(
      ctx, scratch.samples, scratch.step, k, 1, [&](std::uint32_t i) { return parts[i].top_y; },
      [&](std::uint32_t i) { return parts[i].mass_y; });
  double most[1] = {-HUGE_VAL};
  for (std::uint32_t i = ctx.thread(); i < scratch.samples; i += ctx.threads()) {
    most[0] = std::fmax(most[0], static_cast<double>(parts[i].top_z));
  }
  block_reduce<1>(ctx, shared.block, most);
  double mean[2] = {0, 0};
  for (std::uint32_t i = ctx.thread(); i < scratch.samples; i += ctx.threads()) {
    if (!(parts[i].top_z > -HUGE_VALF)) continue;
    const double scale = std::exp(static_cast<double>(parts[i].top_z) - most[0]);
    mean[0] += static_cast<double>(parts[i].mass_z) * scale,
        mean[1] += static_cast<double>(parts[i].drift) * scale;
  }
  block_reduce<0>(ctx, shared.block, mean);
  if (ctx.thread() != 0) return;
  HiddenFrame out{};
  // The mean drift: a rare token as pivot would cost all accuracy.
  out.c = static_cast<float>(mean[1] / mean[0]);
  const bool all = heads.columns <= scratch.all_exact;
  out.floor_z = all ? -HUGE_VALF : floor_of(z);
  out.floor_y = all ? -HUGE_VALF : floor_of(y) + out.c;
  out.m = out.floor_z > -HUGE_VALF ? out.floor_z : 0.0F;
  scratch.frames[row] = out;
}

}  // namespace driftgate::gpu::cuda
