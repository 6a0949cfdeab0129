#pragma once

#include "gpu/cuda/hidden_digits.hpp"
#include "gpu/cuda/hidden_logit.hpp"

/// Computes logits in float64 for some columns of a row: those above its floors, and the target token.
namespace driftgate::gpu::cuda {

constexpr unsigned kExactThreads = 256;
constexpr unsigned kTogether = 4;  ///< columns that a warp forms at a time

struct ExactShared {
  std::uint32_t counts[kExactThreads];
  std::uint32_t columns[kMaxExact + 1];
};

/// Writes the columns of the mask of the row in order and returns their number; at most kMaxExact are
/// written. The list may be read after the next barrier.
template <class Ctx>
DRIFTGATE_HD std::uint32_t list_columns(Ctx& ctx, const HiddenScratch& scratch, std::uint32_t row) {
  ExactShared& shared = ctx.template shared<ExactShared>();
  const std::uint32_t* words = scratch.masks + std::uint64_t{row} * scratch.words;
  const std::uint32_t each = (scratch.words + ctx.threads() - 1) / ctx.threads();
  const std::uint32_t begin = ctx.thread() * each;
  const std::uint32_t end = begin + each < scratch.words ? begin + each : scratch.words;
  std::uint32_t count = 0;
  for (std::uint32_t word = begin; word < end; ++word) {
    for (std::uint32_t bits = words[word]; bits != 0; bits &= bits - 1) ++count;
  }
  shared.counts[ctx.thread()] = count;
  ctx.sync();
  std::uint32_t at = 0, total = 0;
  for (unsigned i = 0; i < ctx.threads(); ++i) {
    if (i == ctx.thread()) at = total;
    total += shared.counts[i];
  }
  for (std::uint32_t word = begin; word < end; ++word) {
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      if (((words[word] >> bit) & 1U) == 0) continue;
      if (at < kMaxExact) shared.columns[at] = word * 32 + bit;
      ++at;
    }
  }
  return total;
}

/// Called by a warp: computes the logits of some columns.
template <class Ctx>
DRIFTGATE_HD void form_columns(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch, std::uint32_t row,
                               const std::uint32_t (&columns)[kTogether], Logit (&out)[kTogether]) {
  const unsigned char* train = batch.train + row * batch.train_stride_bytes;
  const unsigned char* inf = batch.inf + row * batch.inf_stride_bytes;
  const unsigned char* of_train[kTogether];
  const unsigned char* of_inf[kTogether];
  double z[kTogether] = {}, drift[kTogether] = {}, change[kTogether] = {};
  DRIFTGATE_UNROLL
  for (unsigned i = 0; i < kTogether; ++i) {
    const std::uint64_t token = heads.tokens[columns[i]];
    of_train[i] = heads.train.weight + token * heads.train.line_bytes;
    of_inf[i] = heads.inf.weight + token * heads.inf.line_bytes;
  }
  for (std::uint32_t k = ctx.thread() % 32; k < heads.width; k += 32) {
    const double a = static_cast<double>(load_element(train, batch.train_dtype, k));
    const double less = a - static_cast<double>(load_element(inf, batch.inf_dtype, k));
    DRIFTGATE_UNROLL
    for (unsigned i = 0; i < kTogether; ++i) {
      const double w = static_cast<double>(load_element(of_train[i], heads.train.dtype, k));
      z[i] += a * w;
      if (heads.same) {
        drift[i] += less * w;
        continue;
      }
      const double v = static_cast<double>(load_element(of_inf[i], heads.inf.dtype, k));
      drift[i] += less * v;
      change[i] += a * (heads.train.scale * w - heads.inf.scale * v);
    }
  }
  DRIFTGATE_UNROLL
  for (unsigned i = 0; i < kTogether; ++i) {
    const double sum = warp_sum(ctx, z[i]), less = warp_sum(ctx, drift[i]), other = warp_sum(ctx, change[i]);
    out[i] = exact_logit(heads, columns[i], heads.train.scale * sum, heads.inf.scale * less + other);
  }
}

template <class Ctx>
DRIFTGATE_HD void exact_row(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch,
                            const HiddenScratch& scratch, std::uint32_t row) {
  HiddenState& state = scratch.states[row];
  if (ctx.thread() == 0) state = {};
  ctx.sync();
  if (scratch.info[row].flaws != 0) return;
  ExactShared& shared = ctx.template shared<ExactShared>();
  const std::uint32_t total = list_columns(ctx, scratch, row), count = total < kMaxExact ? total : kMaxExact;
  const bool has_target = batch.columns != nullptr && batch.columns[row] >= 0;
  if (ctx.thread() == 0) {
    state.exact = count;
    state.not_measured = total > kMaxExact ? 1 : 0;
    if (has_target) shared.columns[count] = static_cast<std::uint32_t>(batch.columns[row]);
  }
  ctx.sync();
  const std::uint32_t all = count + (has_target ? 1U : 0U);
  const unsigned warps = ctx.threads() / 32;
  HiddenColumn* const out = scratch.exact + std::uint64_t{row} * kMaxExact;
  for (std::uint32_t first = ctx.thread() / 32 * kTogether; first < all; first += warps * kTogether) {
    std::uint32_t columns[kTogether];
    for (unsigned i = 0; i < kTogether; ++i)
      columns[i] = shared.columns[first + i < all ? first + i : all - 1];
    Logit logits[kTogether];
    form_columns(ctx, heads, batch, row, columns, logits);
    if (ctx.thread() % 32 != 0) continue;
    for (unsigned i = 0; i < kTogether && first + i < all; ++i) {
      if (first + i < count) {
        out[first + i] = {logits[i].z, logits[i].drift, columns[i]};
      } else {
        state.target_z = logits[i].z, state.target_drift = logits[i].drift;
      }
    }
  }
}

}  // namespace driftgate::gpu::cuda
