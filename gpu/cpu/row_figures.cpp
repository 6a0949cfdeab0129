#include "gpu/cpu/row_figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <span>

#include "gpu/cpu/half.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu::cpu {

namespace {

using schema::Metric;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double& at(driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

double head_tail_tv(const Pass2& terms, double span) {
  constexpr double kRounding = 1 + 1e-6;  // masses and spans may be sums of float32 blocks
  double best = std::tanh(span / 4);
  for (const HeadSums& head : terms.heads) {
    const double m = std::min(1.0, std::max(head.tail_p, head.tail_q));
    const double inside = head.max_d > head.min_d ? std::tanh((head.max_d - head.min_d) / 4) : 0.0;
    best = std::min(best, (m + (1 - m) * inside) * kRounding);
  }
  return std::min(best, 1.0);
}

using Ids = std::array<std::uint32_t, kMaxTopK>;

std::span<const std::uint32_t> sorted_ids(const TopList& list, std::uint32_t k, Ids& ids) {
  const std::size_t count = std::min(k, list.size);
  for (std::size_t i = 0; i < count; ++i) ids[i] = list.entries[i].id;
  std::sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
  return {ids.data(), count};
}

std::size_t shared_ids(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
  std::size_t shared = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j])
      ++shared, ++i, ++j;
    else if (a[i] < b[j])
      ++i;
    else
      ++j;
  }
  return shared;
}

void top_figures(const SummedRow& row, driftgate_row& out) {
  const TopList& train = row.top_train;
  const TopList& inf = row.top_inf;
  at(out, Metric::top1_flip) = train.entries[0].id == inf.entries[0].id ? 0.0 : 1.0;
  // With one token left there is no other to flip to.
  at(out, Metric::top1_margin) = train.size < 2
                                     ? std::numeric_limits<double>::infinity()
                                     : (train.entries[0].value - train.entries[1].value) / row.temperature;
  Ids of_train, of_inf;
  const std::size_t shared =
      shared_ids(sorted_ids(train, row.top_k, of_train), sorted_ids(inf, row.top_k, of_inf));
  at(out, Metric::topk_overlap) = static_cast<double>(shared) / std::min<double>(row.top_k, row.sums.n);
  // m_q is a reference near the largest y, not always it.
  const Pass1& sums = row.sums;
  out.top_train = std::min(1.0, std::exp(train.entries[0].value / row.temperature - sums.m_p) / sums.l_p);
  out.top_inf = std::min(1.0, std::exp(inf.entries[0].value / row.temperature - sums.m_q) / sums.l_q);
}

void target_figures(const SummedRow& row, driftgate_row& out) {
  const Pass1& sums = row.sums;
  const auto [z, y] = bounded(*row.token, sums, row.temperature);
  if (!std::isfinite(z)) {
    out.status = DRIFTGATE_ROW_TOKEN_MASKED;
    return;
  }
  at(out, Metric::logprob_train) = std::min(0.0, z / row.temperature - log_sum(sums));
  at(out, Metric::logprob_inf) = std::min(0.0, y / row.temperature - (sums.m_q + std::log(sums.l_q)));
  at(out, Metric::log_ratio) = ((z - y) / row.temperature - sums.c) + row.offset;
}

}  // namespace

std::size_t element_bytes(std::uint32_t dtype) {
  return dtype == DRIFTGATE_F32 ? 4 : 2;
}

double logit_at(const unsigned char* row, std::uint32_t dtype, std::int64_t column) {
  const unsigned char* from = row + static_cast<std::size_t>(column) * element_bytes(dtype);
  if (dtype == DRIFTGATE_F32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return static_cast<double>(value);
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return static_cast<double>(dtype == DRIFTGATE_BF16 ? from_bf16(bits) : from_f16(bits));
}

TargetLogits bounded(const TargetLogits& token, const Pass1& sums, double temperature) {
  const double bound = sentinel_bound(temperature);
  const bool apart = std::abs(token.train - token.inf) > bound * temperature;
  if (!apart || sums.m_p > bound || sums.m_q > bound) return token;
  return {std::max(token.train, -bound * temperature), std::max(token.inf, -bound * temperature)};
}

void clear_figures(driftgate_row& out) {
  std::ranges::fill(out.values, kNaN);
  out.status = DRIFTGATE_ROW_OK;
  out.reserved = 0;
  out.head_tail_tv = out.top_train = out.top_inf = kNaN;
}

void keep_core(driftgate_row& out) {
  for (const Metric metric :
       {Metric::logit_rms, Metric::tv, Metric::js, Metric::hellinger2, Metric::chi2, Metric::entropy_train,
        Metric::entropy_inf, Metric::topk_overlap, Metric::top1_margin}) {
    at(out, metric) = kNaN;
  }
  out.head_tail_tv = kNaN;
}

double log_sum(const Pass1& sums) {
  return sums.m_p + std::log(sums.l_p);
}

/// A token outside a head set has p ≤ share·σ/n, so that the mass of the tail is below share·σ, where σ² =
/// 2·KL is about the variance of the log-ratio: a tail as large as tv itself would not improve the bound.
void choose_heads(const Pass1& sums, Pass2& out) {
  constexpr double kShares[kHeads] = {0.003, 0.3};
  const double u = (sums.g - sums.s) / sums.l_p;
  const double kl = sums.g / sums.l_p - (u - std::log1p(u));
  const double sigma = kl < 0.5 ? std::sqrt(2 * std::max(0.0, kl)) : 1.0;
  constexpr double kFar = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kHeads; ++i) out.heads[i] = {kShares[i] * sigma / sums.n, kFar, -kFar, 0, 0};
}

void finish_row(const SummedRow& row, driftgate_row& out) {
  const Pass1& sums = row.sums;
  const Pass2& terms = row.terms;
  at(out, Metric::logit_max_abs) = std::max(std::abs(sums.min_drift), std::abs(sums.max_drift));
  at(out, Metric::logit_rms) = std::sqrt(sums.m2 / sums.n);
  at(out, Metric::logit_span) = sums.max_drift - sums.min_drift;
  // Rounding errors of long sums may leave the range of a figure.
  at(out, Metric::tv) = std::min(terms.tv, 1.0);
  out.head_tail_tv = head_tail_tv(terms, sums.max_drift - sums.min_drift);
  at(out, Metric::kl_train_inf) = terms.kl_train_inf;
  at(out, Metric::kl_inf_train) = terms.kl_inf_train;
  at(out, Metric::js) = std::min(terms.js, std::numbers::ln2);
  at(out, Metric::hellinger2) = std::min(terms.hellinger2, 1.0);
  at(out, Metric::chi2) = terms.chi2;
  at(out, Metric::entropy_train) = std::max(0.0, std::log(sums.l_p) - sums.a_p / sums.l_p);
  at(out, Metric::entropy_inf) = std::max(0.0, std::log(sums.l_q) - sums.a_q / sums.l_q);
  top_figures(row, out);
  if (row.token) target_figures(row, out);
}

}  // namespace driftgate::gpu::cpu
