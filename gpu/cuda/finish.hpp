#pragma once

#include "gpu/cuda/pass_math.hpp"
#include "gpu/cuda/terms.hpp"

/// Computes the figures of a row from its sums, with one thread for each row. See docs/design/measurement.md,
/// "Figures of one row".
namespace driftgate::gpu::cuda {

/// Indices of driftgate_row::values, which are those of schema::Metric (the tests compare them).
enum Value : unsigned {
  kLogitMaxAbs,
  kLogitRms,
  kLogitSpan,
  kTv,
  kKlTrainInf,
  kKlInfTrain,
  kJs,
  kHellinger2,
  kChi2,
  kEntropyTrain,
  kEntropyInf,
  kTop1Flip,
  kTopkOverlap,
  kTop1Margin,
  kLogprobTrain,
  kLogprobInf,
  kLogRatio,
  kNonfinite
};

/// Adds the shares of the blocks in pass 2, in rank order, and then the terms of the column with the largest
/// z.
DRIFTGATE_HD TermSums terms_of_parts(const FastRow& row, const FastPart* parts, unsigned cluster,
                                     double log_p_top, double& change_x) {
  TermSums out{};
  const double p_top = std::exp(log_p_top);
  double moments[10] = {};
  double change = 0;
  change_x = 0;
  for (unsigned head = 0; head < kHeads; ++head) {
    out.heads[head] = {row.least_p[head], HUGE_VAL, -HUGE_VAL, 0, 0};
  }
  for (unsigned i = 0; i < cluster; ++i) {
    for (unsigned k = 0; k < 10; ++k) moments[k] += parts[i].moments[k];
    change += parts[i].abs_change;
    change_x += parts[i].change_x;
    for (unsigned head = 0; head < kHeads; ++head) {
      HeadSums& to = out.heads[head];
      to.tail_p += parts[i].tail_e[head] * p_top;
      to.tail_q += (parts[i].tail_e[head] + parts[i].tail_change[head]) * p_top;
      to.min_d = std::fmin(to.min_d, static_cast<double>(parts[i].low[head]));
      to.max_d = std::fmax(to.max_d, static_cast<double>(parts[i].high[head]));
    }
  }
  change_x *= p_top;
  out.tv = 0.5 * change * p_top;
  for (int k = 2; k <= kMostMoment; ++k) {
    const MomentSeries series = moment_series(k);
    const double moment = moments[k - 2] * p_top;
    out.kl_train_inf += series.kl_train_inf * moment, out.kl_inf_train += series.kl_inf_train * moment;
    out.js += series.js * moment, out.hellinger2 += series.hellinger2 * moment;
    out.chi2 += series.chi2 * moment;
  }
  add_terms(terms_of(p_top, log_p_top, row.offset), p_top, row.offset, out);
  return out;
}

/// Merges the blocks' lists of one kernel into `list`; each is in order, and blocks are in column order.
DRIFTGATE_HD void merge_lists(const TopEntry* lists, unsigned cluster, unsigned kernel, unsigned size,
                              TopEntry* list) {
  unsigned at[kMaxCluster] = {};
  for (unsigned i = 0; i < size; ++i) {
    unsigned best = 0;
    for (unsigned block = 1; block < cluster; ++block) {
      const auto next = [&](unsigned b) {
        return lists + (b * 2 + kernel) * size + (at[b] < size ? at[b] : size - 1);
      };
      if (at[block] < size && (at[best] >= size || next(block)->value > next(best)->value)) best = block;
    }
    list[i] = lists[(best * 2 + kernel) * size + at[best]];
    ++at[best];
  }
}

DRIFTGATE_HD TopSummary top_of_lists(const TopEntry* lists, unsigned cluster, unsigned size, unsigned top_k,
                                     std::uint32_t columns) {
  TopEntry train[kMaxFastTopK], inf[kMaxFastTopK];
  merge_lists(lists, cluster, 0, size, train);
  merge_lists(lists, cluster, 1, size, inf);
  TopSummary out{train[0].id,
                 inf[0].id,
                 0,
                 columns,
                 static_cast<double>(train[0].value) - static_cast<double>(train[1].value),
                 static_cast<double>(inf[0].value)};
  for (unsigned i = 0; i < top_k; ++i) {
    for (unsigned j = 0; j < top_k; ++j) out.overlap += train[i].id == inf[j].id ? 1U : 0U;
  }
  return out;
}

DRIFTGATE_HD double head_tail_tv(const TermSums& terms, double span) {
  constexpr double kRounding = 1 + 1e-6;  // masses and spans may be sums of float32
  double best = std::tanh(span / 4);
  for (unsigned i = 0; i < kHeads; ++i) {
    const HeadSums& head = terms.heads[i];
    const double m = std::fmin(1.0, std::fmax(head.tail_p, head.tail_q));
    const double inside = head.max_d > head.min_d ? std::tanh((head.max_d - head.min_d) / 4) : 0.0;
    best = std::fmin(best, (m + (1 - m) * inside) * kRounding);
  }
  return std::fmin(best, 1.0);
}

DRIFTGATE_HD void write_figures(const RowSums& row, const BatchView& batch, driftgate_row& out) {
  const PassSums& pass = row.pass;
  const TermSums& terms = row.terms;
  double* values = out.values;
  const double lse_q = pass.m_q + std::log(pass.l_q), span = pass.max_drift - pass.min_drift;
  values[kLogitMaxAbs] = std::fmax(std::fabs(pass.min_drift), std::fabs(pass.max_drift));
  values[kLogitRms] = std::sqrt(pass.m2 / pass.n);
  values[kLogitSpan] = span;
  // Rounding errors of long sums may leave the range of a figure.
  values[kTv] = std::fmin(terms.tv, 1.0);
  values[kKlTrainInf] = terms.kl_train_inf;
  values[kKlInfTrain] = terms.kl_inf_train;
  values[kJs] = std::fmin(terms.js, 0.6931471805599453);
  values[kHellinger2] = std::fmin(terms.hellinger2, 1.0);
  values[kChi2] = terms.chi2;
  values[kEntropyTrain] = std::fmax(0.0, std::log(pass.l_p) - pass.a_p / pass.l_p);
  values[kEntropyInf] = std::fmax(0.0, std::log(pass.l_q) - pass.a_q / pass.l_q);
  values[kTop1Flip] = row.top.train_id == row.top.inf_id ? 0.0 : 1.0;
  const std::uint32_t listed = batch.top_k < row.top.entries ? batch.top_k : row.top.entries;
  values[kTopkOverlap] = static_cast<double>(row.top.overlap) / static_cast<double>(listed);
  values[kTop1Margin] = row.top.margin / batch.temperature;
  out.head_tail_tv = head_tail_tv(terms, span);
  out.top_train = std::fmin(1.0, 1 / pass.l_p);
  out.top_inf = std::fmin(1.0, std::exp(row.top.top_y / batch.temperature - lse_q));
}

/// Sets the figures that DRIFTGATE_METRICS_CORE excludes to NaN.
DRIFTGATE_HD void keep_core(driftgate_row& out) {
  const Value others[] = {kLogitRms,     kTv,         kJs,          kHellinger2, kChi2,
                          kEntropyTrain, kEntropyInf, kTopkOverlap, kTop1Margin};
  for (const Value value : others) out.values[value] = NAN;
  out.head_tail_tv = NAN;
}

/// Writes the figures of row `index`; those that it does not have are NaN.
DRIFTGATE_HD void finish_row(const RowSums& row, const BatchView& batch, std::uint64_t index, double offset,
                             driftgate_row& out) {
  for (double& value : out.values) value = NAN;
  out.head_tail_tv = out.top_train = out.top_inf = NAN;
  out.status = DRIFTGATE_ROW_OK;
  out.reserved = 0;
  out.values[kNonfinite] = static_cast<double>(row.nonfinite);
  if (row.nonfinite > 0 || row.top.entries == 0) {
    out.status = row.nonfinite > 0 ? DRIFTGATE_ROW_NONFINITE : DRIFTGATE_ROW_ALL_MASKED;
    return;
  }
  write_figures(row, batch, out);
  if (batch.tokens == nullptr) return;
  const auto token = static_cast<std::uint64_t>(batch.tokens[index]);
  const unsigned char* train = batch.train + index * batch.train_stride_bytes;
  const unsigned char* inf = batch.inf + index * batch.inf_stride_bytes;
  double z = static_cast<double>(load_element(train, batch.train_dtype, token));
  double y = static_cast<double>(load_element(inf, batch.inf_dtype, token));
  if (!(std::fabs(z) < HUGE_VAL)) {
    out.status = DRIFTGATE_ROW_TOKEN_MASKED;
    return;
  }
  const PassSums& pass = row.pass;
  const double bound = sentinel_bound(batch.temperature), least = -bound * batch.temperature;
  if (std::fabs(z - y) > -least && pass.m_p <= bound && pass.m_q <= bound) {
    z = std::fmax(z, least), y = std::fmax(y, least);
  }
  const double lse_p = pass.m_p + std::log(pass.l_p), lse_q = pass.m_q + std::log(pass.l_q);
  out.values[kLogprobTrain] = std::fmin(0.0, z / batch.temperature - lse_p);
  out.values[kLogprobInf] = std::fmin(0.0, y / batch.temperature - lse_q);
  out.values[kLogRatio] = ((z - y) / batch.temperature - pass.c) + offset;
}

/// Whether float32 sums are not accurate enough for these figures.
DRIFTGATE_HD bool needs_wide(const FastRow& row, const driftgate_row& out, Mode mode) {
  // Float32 sums leave the offset an error of about 3e-7 of the mean |log-ratio|, which is twice tv.
  constexpr double kSmallPart = 0.01, kLargeOffset = 8, kWellCentred = 900;
  const double n = static_cast<double>(row.unmasked), m2 = row.sums[5] - row.sums[4] * row.sums[4] / n;
  if (row.second == 0) {  // tv is unknown; use its upper bound by Pinsker's inequality
    return std::fabs(out.values[kLogRatio]) < kSmallPart * std::sqrt(out.values[kKlTrainInf] / 2);
  }
  if (std::fabs(out.values[kLogRatio]) < kSmallPart * out.values[kTv]) return true;
  if (std::fabs(row.offset) > kLargeOffset * out.values[kTv]) return true;
  return mode == Mode::all && row.sums[4] * row.sums[4] / n > kWellCentred * m2;
}

/// Handles row `index` after the float32 kernel. Writes its figures and returns true, or leaves the row to
/// the float64 form.
DRIFTGATE_HD bool finish_fast_row(const BatchView& batch, const BatchScratch& scratch, std::uint64_t index,
                                  driftgate_row& out) {
  FastRow& fast = scratch.rows[index];
  if (fast.outcome != Outcome::measured) return false;
  RowSums row{};
  row.pass = pass_of(fast);
  double change_x = 0;
  if (fast.second != 0) {
    row.terms = terms_of_parts(fast, scratch.parts + index * scratch.cluster, scratch.cluster,
                               -std::log(row.pass.l_p), change_x);
  } else {
    row.terms.kl_train_inf = fast.kl_train_inf, row.terms.kl_inf_train = fast.kl_inf_train;
  }
  row.top = top_of_lists(scratch.lists + index * scratch.cluster * 2 * scratch.list_size, scratch.cluster,
                         scratch.list_size, batch.top_k, fast.unmasked);
  // H(q) = H(p) − KL(q‖p) − Σ(q − p)·z
  const double entropy = std::log(row.pass.l_p) - row.pass.a_p / row.pass.l_p;
  row.pass.a_q = (std::log(row.pass.l_q) - (entropy - row.terms.kl_inf_train - change_x)) * row.pass.l_q;
  finish_row(row, batch, index, fast.offset, out);
  if (needs_wide(fast, out, batch.mode)) {
    fast.outcome = Outcome::wide;
    return false;
  }
  if (batch.mode == Mode::core) keep_core(out);
  return true;
}

/// Writes the figures of row `index` after the float64 form.
DRIFTGATE_HD void finish_wide_row(const BatchView& batch, const BatchScratch& scratch, std::uint64_t index,
                                  driftgate_row& out) {
  const RowSums& row = scratch.wide[index];
  finish_row(row, batch, index, offset_of(row.pass), out);
  if (batch.mode == Mode::core) keep_core(out);
}

}  // namespace driftgate::gpu::cuda
