#pragma once

#include "gpu/cuda/finish.hpp"
#include "gpu/cuda/hidden_frame.hpp"

/// Merges the columns of a row between the sweeps and after them.
namespace driftgate::gpu::cuda {

constexpr unsigned kMergeThreads = 128;

struct MergeShared {
  BlockShared block;
  double top_z, second_z, top_y, kth_z, kth_y;
  std::uint32_t top_z_column, top_y_column, overlap;
};

/// Ranks the float64 columns of a row: value descending, then column ascending. `top_k`: the number of ranks
/// that belong to the top, at most the number of columns.
template <class Ctx>
DRIFTGATE_HD void rank_columns(Ctx& ctx, const HiddenColumn* columns, std::uint32_t count,
                               std::uint32_t top_k) {
  MergeShared& shared = ctx.template shared<MergeShared>();
  if (ctx.thread() == 0) {
    shared.overlap = 0;
    shared.second_z = shared.kth_z = shared.kth_y = -HUGE_VAL;
  }
  ctx.sync();
  for (std::uint32_t i = ctx.thread(); i < count; i += ctx.threads()) {
    const double z = columns[i].z, y = z - columns[i].drift;
    std::uint32_t place_z = 0, place_y = 0;
    for (std::uint32_t j = 0; j < count; ++j) {
      const double other = columns[j].z, other_y = other - columns[j].drift;
      place_z += other > z || (other == z && j < i) ? 1U : 0U;
      place_y += other_y > y || (other_y == y && j < i) ? 1U : 0U;
    }
    if (place_z == 0) shared.top_z = z, shared.top_z_column = columns[i].column;
    if (place_y == 0) shared.top_y = y, shared.top_y_column = columns[i].column;
    if (place_z == 1) shared.second_z = z;
    if (place_z + 1 == top_k) shared.kth_z = z;
    if (place_y + 1 == top_k) shared.kth_y = y;
    if (place_z < top_k && place_y < top_k) ctx.add(&shared.overlap, 1U);
  }
  ctx.sync();
}

/// Sums of a row over the columns of all sweeps' parts, in frame units.
template <class Ctx>
DRIFTGATE_HD void add_parts(Ctx& ctx, const HiddenFirst* parts, std::uint32_t splits,
                            double (&sums)[kHiddenFirst], double (&range)[2]) {
  for (double& sum : sums) sum = 0;
  range[0] = range[1] = -HUGE_VAL;
  for (std::uint32_t i = ctx.thread(); i < splits; i += ctx.threads()) {
    for (unsigned j = 0; j < kHiddenFirst; ++j) sums[j] += parts[i].sums[j];
    range[0] = std::fmax(range[0], static_cast<double>(parts[i].high));
    range[1] = std::fmax(range[1], -static_cast<double>(parts[i].low));
  }
  BlockShared& shared = ctx.template shared<MergeShared>().block;
  block_reduce<0>(ctx, shared, sums);
  block_reduce<2>(ctx, shared, range);
}

/// Sums over the float64 columns of a row: kWideFirst sums, the largest drift and the largest −drift.
template <class Ctx>
DRIFTGATE_HD void add_columns(Ctx& ctx, const HiddenColumn* columns, std::uint32_t count, double m_p,
                              double m_q, double c, double (&sums)[kWideFirst], double (&range)[2]) {
  double own[kWideFirst] = {};
  range[0] = range[1] = -HUGE_VAL;
  for (std::uint32_t i = ctx.thread(); i < count; i += ctx.threads()) {
    const double z = columns[i].z, drift = columns[i].drift;
    add_wide_first(z - m_p, z - drift - m_q, drift - c, own);
    range[0] = std::fmax(range[0], drift), range[1] = std::fmax(range[1], -drift);
  }
  BlockShared& shared = ctx.template shared<MergeShared>().block;
  double first[kWideFirst - 2], last[2] = {own[kWideFirst - 2], own[kWideFirst - 1]};
  for (unsigned i = 0; i + 2 < kWideFirst; ++i) first[i] = own[i];
  block_reduce<0>(ctx, shared, first);
  block_reduce<0>(ctx, shared, last);
  block_reduce<2>(ctx, shared, range);
  for (unsigned i = 0; i + 2 < kWideFirst; ++i) sums[i] = first[i];
  sums[kWideFirst - 2] = last[0], sums[kWideFirst - 1] = last[1];
}

/// The sums of pass 1 of a row, from its float32 and its float64 columns.
DRIFTGATE_HD PassSums joined_pass(const double (&parts)[kHiddenFirst], const double (&part_range)[2],
                                  const double (&exact)[kWideFirst], const double (&range)[2],
                                  const HiddenInfo& info, const HiddenFrame& frame, double m_p, double m_q,
                                  std::uint32_t columns) {
  const double m = static_cast<double>(frame.m) + info.base_z,
               c = static_cast<double>(frame.c) + info.base_drift;
  const double e = parts[0], s = parts[1], g = parts[2], h = parts[3];
  const double f = e - s + g;  // Σ of e·e^{−d'}
  const double scale_p = e > 0 ? std::exp(m - m_p) : 0.0, scale_q = e > 0 ? std::exp(m - c - m_q) : 0.0;
  PassSums out{};
  out.m_p = m_p, out.m_q = m_q, out.c = c;
  out.l_p = exact[0] + scale_p * e, out.s = exact[1] + scale_p * s, out.g = exact[2] + scale_p * g;
  out.a_p = exact[3] + scale_p * (parts[4] + (m - m_p) * e);
  out.l_q = exact[4] + scale_q * f, out.t = exact[5] + scale_q * (s - g - h), out.h = exact[6] + scale_q * h;
  out.a_q = exact[7] + scale_q * (parts[5] + (m - c - m_q) * f);
  out.n = static_cast<double>(columns);
  const double sum = exact[8] + parts[6], squares = exact[9] + parts[7];
  out.mean_drift = c + sum / out.n;
  out.m2 = std::fmax(0.0, squares - sum * sum / out.n);
  out.max_drift = std::fmax(range[0], part_range[0] + c);
  out.min_drift = -std::fmax(range[1], part_range[1] - c);
  return out;
}

/// Whether all columns that require float64 were computed in it: those with more than a given share of the
/// mass outside the most likely token, and the k most likely ones.
DRIFTGATE_HD bool floor_holds(double floor, double top, double mass, double kth) {
  if (!(floor > -HUGE_VAL)) return true;
  const double rest = std::fmax(mass - 1, mass * kLeastRest);
  return floor <= top + std::log(rest * kExactShare) && kth > floor + 1e-6 * (1 + std::fabs(kth));
}

/// Whether independent errors of the float32 columns, with standard deviation `error` each, leave a
/// divergence or tv accurate. None of these columns has more than kExactShare·rest of the mass and together
/// they have `swept`, so that Σp² ≤ kExactShare·rest·swept and Σp²d² ≤ kExactShare·rest·2·KL. Three standard
/// deviations count.
constexpr double kCertain = 3.0 / 32;
constexpr double kPermitted = 7e-7, kLeastError = 1e-15;
/// The same for errors of the logits, which scale the terms of a divergence, Σp·φ; the spread of these is
/// estimated as 3/2 of the divergence.
DRIFTGATE_HD bool weights_hold(double error, double rest, double swept) {
  return 1.5 * kCertain * error * std::sqrt(swept) <= kPermitted * std::sqrt(rest);
}
DRIFTGATE_HD bool divergence_holds(double error, double rest, double kl) {
  return kCertain * error * std::sqrt(2 * kl * rest) <= std::fmax(kPermitted * kl, kLeastError);
}
DRIFTGATE_HD bool distance_holds(double error, double rest, double swept, double tv) {
  return kCertain * error * std::sqrt(rest * swept) / 2 <= std::fmax(kPermitted * tv, kLeastError);
}

/// Both KL divergences from pass 1. Returns false where float32 sums may exceed the permitted error.
DRIFTGATE_HD bool one_pass_of(const PassSums& pass, HiddenState& state) {
  constexpr double kRounding = 8 * 5.9604644775390625e-08;
  const double u = (pass.g - pass.s) / pass.l_p, x = (pass.h + pass.t) / pass.l_q;
  if (!(u > -1 && x > -1)) return false;
  state.kl_train_inf = std::fmax(0.0, pass.g / pass.l_p - minus_log1p(u));
  state.kl_inf_train = std::fmax(0.0, pass.h / pass.l_q - minus_log1p(x));
  const double error_p = kRounding * (pass.g + std::fabs(pass.s)) / pass.l_p * std::fabs(u / (1 + u));
  const double error_q = kRounding * (pass.h + std::fabs(pass.t)) / pass.l_q * std::fabs(x / (1 + x));
  return error_p <= std::fmax(1e-6 * state.kl_train_inf, 1e-15) &&
         error_q <= std::fmax(1e-6 * state.kl_inf_train, 1e-15);
}

/// Called by thread 0: the parameters of the second sweep.
DRIFTGATE_HD void set_second(const HiddenInfo& info, HiddenState& state, HiddenFrame& frame) {
  const PassSums& pass = state.row.pass;
  state.offset = offset_of(pass);
  state.lse = pass.m_p + std::log(pass.l_p);
  frame.offset = static_cast<float>(state.offset);
  const double m = static_cast<double>(frame.m) + info.base_z;
  for (unsigned head = 0; head < kHeads; ++head) {
    const double least = least_of_head(pass, head);
    state.row.terms.heads[head] = {least, HUGE_VAL, -HUGE_VAL, 0, 0};
    frame.least_e[head] = static_cast<float>(std::fmin(least * std::exp(state.lse - m), 3e38));
  }
}

template <class Ctx>
DRIFTGATE_HD void merge_row(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch,
                            const HiddenScratch& scratch, std::uint32_t row) {
  HiddenState& state = scratch.states[row];
  const HiddenInfo info = scratch.info[row];
  const std::uint32_t count = state.exact;
  const std::uint32_t wanted = batch.top_k < 2 ? 2 : batch.top_k;
  const std::uint32_t least = wanted < heads.columns ? wanted : heads.columns;
  if (info.flaws != 0 || state.not_measured != 0 || count < least) {
    if (ctx.thread() == 0 && info.flaws == 0) state.not_measured = 1;
    return;
  }
  MergeShared& shared = ctx.template shared<MergeShared>();
  const HiddenColumn* columns = scratch.exact + std::uint64_t{row} * kMaxExact;
  HiddenFrame& frame = scratch.frames[row];
  const std::uint32_t listed = batch.top_k < heads.columns ? batch.top_k : heads.columns;
  rank_columns(ctx, columns, count, listed);
  double parts[kHiddenFirst], part_range[2], exact[kWideFirst], range[2];
  add_parts(ctx, scratch.first + std::uint64_t{row} * scratch.splits, scratch.splits, parts, part_range);
  add_columns(ctx, columns, count, shared.top_z, shared.top_y, static_cast<double>(frame.c) + info.base_drift,
              exact, range);
  if (ctx.thread() != 0) return;
  RowSums& out = state.row;
  out.pass =
      joined_pass(parts, part_range, exact, range, info, frame, shared.top_z, shared.top_y, heads.columns);
  out.top = {
      shared.top_z_column, shared.top_y_column, shared.overlap, heads.columns, shared.top_z - shared.second_z,
      shared.top_y};
  set_second(info, state, frame);
  const PassSums& pass = out.pass;
  const bool floors =
      floor_holds(static_cast<double>(frame.floor_z) + info.base_z, pass.m_p, pass.l_p, shared.kth_z) &&
      floor_holds(static_cast<double>(frame.floor_y - frame.c) + info.base_z - info.base_drift, pass.m_q,
                  pass.l_q, shared.kth_y);
  state.swept = std::fmax(0.0, 1 - exact[0] / pass.l_p);
  const bool one_pass = one_pass_of(pass, state);
  const bool finite = std::isfinite(pass.l_p) && std::isfinite(pass.l_q) && std::isfinite(pass.m2) &&
                      std::isfinite(pass.a_p) && std::isfinite(pass.a_q) && std::isfinite(state.offset);
  const bool weights =
      weights_hold(info.error_z, 1 - 1 / pass.l_p, count < heads.columns ? state.swept : 0.0);
  if (!finite || !floors || !weights) state.not_measured = 1;
  state.second = state.not_measured == 0 && (!batch.core || !one_pass) ? 1 : 0;
}

/// The terms of pass 2 of a row, from its float32 and float64 columns, into state.row.terms.
template <class Ctx>
DRIFTGATE_HD void add_second_pass(Ctx& ctx, const HiddenScratch& scratch, const HiddenInfo& info,
                                  std::uint32_t row, TermSums& out) {
  const HiddenState& state = scratch.states[row];
  const HiddenFrame& frame = scratch.frames[row];
  const double m = static_cast<double>(frame.m) + info.base_z, scale = std::exp(m - state.lse);
  TermSums own{};
  for (unsigned head = 0; head < kHeads; ++head) own.heads[head] = state.row.terms.heads[head];
  const HiddenSecond* parts = scratch.second + std::uint64_t{row} * scratch.splits;
  for (std::uint32_t i = ctx.thread(); i < scratch.splits; i += ctx.threads()) {
    const double* sums = parts[i].sums;
    own.kl_train_inf += sums[0] * scale, own.kl_inf_train += sums[1] * scale, own.tv += sums[2] * scale;
    own.js += sums[3] * scale, own.hellinger2 += sums[4] * scale, own.chi2 += sums[5] * scale;
    for (unsigned head = 0; head < kHeads; ++head) {
      HeadSums& to = own.heads[head];
      to.tail_p += sums[6 + head] * scale, to.tail_q += sums[6 + kHeads + head] * scale;
      to.min_d = std::fmin(to.min_d, static_cast<double>(parts[i].low[head]));
      to.max_d = std::fmax(to.max_d, static_cast<double>(parts[i].high[head]));
    }
  }
  const HiddenColumn* columns = scratch.exact + std::uint64_t{row} * kMaxExact;
  for (std::uint32_t i = ctx.thread(); i < state.exact; i += ctx.threads()) {
    const double d = (columns[i].drift - state.row.pass.c) + state.offset;
    const double log_p = columns[i].z - state.lse, p = std::exp(log_p);
    add_terms(terms_of(p, log_p, d), p, d, own);
  }
  BlockShared& shared = ctx.template shared<MergeShared>().block;
  double terms[6] = {own.kl_train_inf, own.kl_inf_train, own.tv, own.js, own.hellinger2, own.chi2};
  block_reduce<0>(ctx, shared, terms);
  out = {terms[0], terms[1], terms[2], terms[3], terms[4], terms[5], {}};
  for (unsigned head = 0; head < kHeads; ++head) {
    double sums[4] = {own.heads[head].max_d, -own.heads[head].min_d, own.heads[head].tail_p,
                      own.heads[head].tail_q};
    block_reduce<2>(ctx, shared, sums);
    out.heads[head] = {own.heads[head].least_p, -sums[1], sums[0], sums[2], sums[3]};
  }
}

/// Figures of the target token.
DRIFTGATE_HD void write_target(const HiddenState& state, std::int32_t column, driftgate_row& out) {
  if (column < 0) {
    out.status = DRIFTGATE_ROW_TOKEN_MASKED;
    return;
  }
  const PassSums& pass = state.row.pass;
  const double z = state.target_z, y = z - state.target_drift;
  out.values[kLogprobTrain] = std::fmin(0.0, z - state.lse);
  out.values[kLogprobInf] = std::fmin(0.0, y - (pass.m_q + std::log(pass.l_q)));
  out.values[kLogRatio] = (state.target_drift - pass.c) + state.offset;
}

DRIFTGATE_HD void clear_row(driftgate_row& out) {
  for (double& value : out.values) value = NAN;
  out.head_tail_tv = out.top_train = out.top_inf = NAN;
  out.status = DRIFTGATE_ROW_OK;
  out.reserved = 0;
}

/// Called by thread 0: writes the figures, or the status DRIFTGATE_ROW_NOT_MEASURED.
DRIFTGATE_HD void write_row(const HeadsView& heads, const HiddenBatch& batch, const HiddenInfo& info,
                            HiddenState& state, std::uint32_t row, driftgate_row& out) {
  clear_row(out);
  if (info.flaws != 0) {
    out.status = DRIFTGATE_ROW_NONFINITE;
    const std::uint32_t kernels = (info.flaws & 1U) + (info.flaws >> 1);
    out.values[kNonfinite] = static_cast<double>(heads.columns) * kernels;
    return;
  }
  TermSums& terms = state.row.terms;
  const bool second = state.second != 0;
  if (!second) terms.kl_train_inf = state.kl_train_inf, terms.kl_inf_train = state.kl_inf_train;
  const double rest = 1 - 1 / state.row.pass.l_p, error = info.error_drift;
  const bool swept = state.exact < heads.columns;
  const bool holds = !swept || (divergence_holds(error, rest, terms.kl_train_inf) &&
                                divergence_holds(error, rest, terms.kl_inf_train) &&
                                (!second || distance_holds(error, rest, state.swept, terms.tv)));
  const bool finite = std::isfinite(terms.kl_train_inf) && std::isfinite(terms.kl_inf_train);
  if (state.not_measured != 0 || !holds || !finite) {
    out.status = DRIFTGATE_ROW_NOT_MEASURED;
    return;
  }
  BatchView view{};
  view.top_k = batch.top_k, view.temperature = 1;  // logits are over it already
  out.values[kNonfinite] = 0;
  write_figures(state.row, view, out);
  if (batch.columns != nullptr) write_target(state, batch.columns[row], out);
  if (batch.core) keep_core(out);
}

template <class Ctx>
DRIFTGATE_HD void finish_hidden_row(Ctx& ctx, const HeadsView& heads, const HiddenBatch& batch,
                                    const HiddenScratch& scratch, std::uint32_t row, driftgate_row& out) {
  HiddenState& state = scratch.states[row];
  const HiddenInfo info = scratch.info[row];
  TermSums terms{};
  if (state.second != 0) add_second_pass(ctx, scratch, info, row, terms);
  if (ctx.thread() != 0) return;
  if (state.second != 0) state.row.terms = terms;
  write_row(heads, batch, info, state, row, out);
}

}  // namespace driftgate::gpu::cuda
