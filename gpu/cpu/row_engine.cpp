#include "gpu/cpu/row_engine.hpp"

#include <algorithm>
#include <cmath>

#include "gpu/cpu/row_figures.hpp"
#include "schema/metrics.hpp"

namespace driftgate::gpu::cpu {

namespace {

using schema::Metric;

double& at(driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

/// Moves the pivot of `part` to `c`.
void recentre(Pass1& part, double c) {
  const double delta = c - part.c;
  if (delta == 0) return;
  const double s = part.s - delta * part.l_p;
  const double t = part.t - delta * part.l_q;
  if (std::abs(delta) <= 1) {
    const double g = part.g + part.l_p * phi(delta) + std::expm1(delta) * (part.g - part.s);
    const double h = part.h + part.l_q * phi(-delta) + std::expm1(-delta) * (part.h + part.t);
    part.g = g;
    part.h = h;
  } else {
    // e^δ would multiply what cancelled in G − S; the same sums stand in l_q and l_p:
    // Σe^{z−m_p}·expm1(−d') = l_q·e^{c+m_q−m_p} − l_p, and alike for q.
    const double gap = c + part.m_q - part.m_p;
    part.g = part.l_q * std::exp(gap) - part.l_p + s;
    part.h = part.l_p * std::exp(-gap) - part.l_q - t;
  }
  part.s = s;
  part.t = t;
  part.c = c;
}

/// Expresses the sums of `part` over maxima `m_p` and `m_q`, which are at least its own.
void rescale(Pass1& part, double m_p, double m_q) {
  const double p = std::exp(part.m_p - m_p);
  const double q = std::exp(part.m_q - m_q);
  part.a_p = p * (part.a_p + part.l_p * (part.m_p - m_p));
  part.a_q = q * (part.a_q + part.l_q * (part.m_q - m_q));
  part.l_p *= p, part.s *= p, part.g *= p;
  part.l_q *= q, part.t *= q, part.h *= q;
  part.m_p = m_p;
  part.m_q = m_q;
}

/// The least figures for which 1e-7 of the whole mass is at most 6e-7 of their value, and the KL above which
/// js is seldom less.
constexpr double kLeastKl = 0.3, kLeastTv = 0.25, kLeastJs = 0.25, kLikelyKl = 1.5;

bool likely_coarse(const Pass1& sums) {
  const double u = (sums.g - sums.s) / sums.l_p;
  return sums.g / sums.l_p - (u - std::log1p(u)) > kLikelyKl;
}

bool coarse_holds(const Pass2& terms) {
  return terms.kl_train_inf > kLeastKl && terms.kl_inf_train > kLeastKl && terms.tv > kLeastTv &&
         terms.js > kLeastJs;
}

}  // namespace

double phi(double x) {
  if (std::abs(x) > 1) return std::expm1(x) - x;
  // Σ x^n/n!, n ≥ 2, from the small end.
  double sum = 0;
  for (int n = std::abs(x) < 0.0625 ? 11 : 20; n > 2; --n) sum = (sum + 1.0) * x / n;
  return (sum + 1.0) * x * x / 2;
}

void merge(Pass1& into, const Pass1& other) {
  Pass1 b = other;
  if (b.m_p > into.m_p) {
    recentre(into, b.c);
  } else {
    recentre(b, into.c);
  }
  const double m_p = std::max(into.m_p, b.m_p);
  const double m_q = std::max(into.m_q, b.m_q);
  rescale(into, m_p, m_q);
  rescale(b, m_p, m_q);
  into.l_p += b.l_p, into.s += b.s, into.g += b.g, into.a_p += b.a_p;
  into.l_q += b.l_q, into.t += b.t, into.h += b.h, into.a_q += b.a_q;
  into.min_drift = std::min(into.min_drift, b.min_drift);
  into.max_drift = std::max(into.max_drift, b.max_drift);
  const double n = into.n + b.n;
  const double gap = b.mean_drift - into.mean_drift;
  into.mean_drift += gap * b.n / n;
  into.m2 += b.m2 + gap * gap * into.n * b.n / n;
  into.n = n;
}

double offset_of(const Pass1& sums) {
  const double u = (sums.g - sums.s) / sums.l_p;
  const double x = (sums.h + sums.t) / sums.l_q;
  constexpr double kWellConditioned = -0.5;
  if (std::isfinite(u) && u >= 0) return std::log1p(u);
  if (std::isfinite(x) && x > kWellConditioned) return -std::log1p(x);
  if (std::isfinite(u) && u > kWellConditioned) return std::log1p(u);
  // Reached only by drifts of hundreds of nats: the sums overflowed, and the cancellation is harmless.
  return sums.c - ((sums.m_p + std::log(sums.l_p)) - (sums.m_q + std::log(sums.l_q)));
}

RowEngine::RowEngine(const TileKernel& kernel, std::uint32_t vocabulary, std::uint32_t top_k,
                     std::uint32_t metrics)
    : kernel_(kernel), top_k_(top_k), metrics_(metrics), widened_(kernel) {
  const std::size_t tiles = (vocabulary + kTileColumns - 1) / kTileColumns;
  scratch_.resize(3 * tiles * kTileColumns);
  narrow_scratch_.resize(2 * tiles * kTileColumns);
  tiles_.resize(tiles);
  for (std::size_t i = 0; i < tiles; ++i) {
    double* base = scratch_.data() + 3 * i * kTileColumns;
    tiles_[i] = {base, base + kTileColumns, base + 2 * kTileColumns, 0, 0, 0, 0};
  }
  set_narrow(true);
  // top1_margin needs two.
  const std::uint32_t capacity = metrics == DRIFTGATE_METRICS_CORE ? 1 : std::max<std::uint32_t>(top_k, 2);
  train_entries_.resize(capacity);
  inf_entries_.resize(capacity);
  top_train_ = {train_entries_.data(), capacity, 0};
  top_inf_ = {inf_entries_.data(), capacity, 0};
  if (kernel.moments != nullptr) {
    moments_.emplace(*kernel.moments, top_k, metrics == DRIFTGATE_METRICS_CORE);
    frames_.resize(tiles);
  }
}

RowEngine::Located RowEngine::first_pass(const RowColumns& row) {
  Located out;
  top_train_.size = top_inf_.size = 0;
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    Pass1 sums{};
    const std::uint64_t nonfinite = kernel_.pass1(row.tile(i), tiles_[i], top_train_, top_inf_, sums);
    out.nonfinite += nonfinite;
    if (nonfinite > 0 || tiles_[i].count == 0) continue;
    if (out.any) {
      merge(out.sums, sums);
    } else {
      out.sums = sums;
    }
    out.any = true;
  }
  return out;
}

Pass2 RowEngine::second_pass(const Pass1& sums, double offset, double lse) const {
  Pass2 out{};
  choose_heads(sums, out);
  for (const Tile& tile : tiles_) {
    if (tile.count > 0) kernel_.pass2(tile, sums.c, offset, lse, out);
  }
  return out;
}

void RowEngine::set_narrow(bool narrow) {
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    tiles_[i].narrow_e = narrow ? narrow_scratch_.data() + 2 * i * kTileColumns : nullptr;
    tiles_[i].narrow_drift = narrow ? tiles_[i].narrow_e + kTileColumns : nullptr;
  }
}

void RowEngine::measure(const driftgate_batch& batch, std::uint64_t index, driftgate_row& out) {
  evaluate_accurately(widened_.of(columns_of(batch, index)),
                      batch.tokens != nullptr ? batch.tokens + index : nullptr, out);
  if (metrics_ == DRIFTGATE_METRICS_CORE) keep_core(out);
}

void RowEngine::evaluate_accurately(const RowColumns& row, const std::int64_t* token, driftgate_row& out) {
  clear_figures(out);
  // Sums of powers leave the log-ratio an error of about 3e-7 of the mean |log-ratio|, which is twice tv.
  constexpr double kSmallPart = 0.01;
  if (moments_ && moments_->measure(row, token, {narrow_scratch_, frames_}, top_train_, top_inf_, out) &&
      !(std::abs(at(out, Metric::log_ratio)) < kSmallPart * at(out, Metric::tv)))
    return;
  if (evaluate(row, token, out)) return;
  set_narrow(false);
  evaluate(row, token, out);
  set_narrow(true);
}

void RowEngine::set_coarse(bool coarse) {
  for (Tile& tile : tiles_) tile.coarse = coarse;
}

/// Corrects the offset by its error as float32 sums of pass 2 show it, since Σp·e^−d is e^−error. Only tv
/// depends on that error to first order, by at most half of it; all other figures change by the error times
/// their own value. The balance has the same terms as tv, so that its own error is at most 3e-7 of twice tv.
bool RowEngine::finish_narrow(const Pass1& sums, double lse, double& offset, Pass2& terms) {
  constexpr double kBalanced = 4e-7, kBearable = 8e-7;
  const auto off = [&terms](double part) { return !(std::abs(terms.balance) <= part * terms.tv); };
  set_coarse(likely_coarse(sums));
  terms = second_pass(sums, offset, lse);
  if (terms.coarse && !coarse_holds(terms)) {
    set_coarse(false);
    terms = second_pass(sums, offset, lse);
  }
  if (off(kBalanced) && std::abs(terms.balance) < 0.5) {
    offset += std::log1p(terms.balance);
    terms = second_pass(sums, offset, lse);
  }
  if (off(kBearable)) return false;
  offset += std::log1p(terms.balance);
  return true;
}

bool RowEngine::evaluate(const RowColumns& row, const std::int64_t* token, driftgate_row& out) {
  clear_figures(out);
  const auto [sums, nonfinite, any] = first_pass(row);
  at(out, Metric::nonfinite) = static_cast<double>(nonfinite);
  if (nonfinite > 0 || !any) {
    out.status = nonfinite > 0 ? DRIFTGATE_ROW_NONFINITE : DRIFTGATE_ROW_ALL_MASKED;
    return true;
  }
  double offset = offset_of(sums);
  const double lse = log_sum(sums);
  const bool narrow = std::ranges::any_of(tiles_, &Tile::narrow);
  Pass2 terms{};
  if (!narrow) {
    terms = second_pass(sums, offset, lse);
  } else if (!finish_narrow(sums, lse, offset, terms)) {
    return false;
  }
  SummedRow summed{sums, terms, top_train_, top_inf_, offset, top_k_, row.temperature, std::nullopt};
  if (token != nullptr) {
    summed.token =
        TargetLogits{logit_at(row.train, row.train_dtype, *token), logit_at(row.inf, row.inf_dtype, *token)};
  }
  finish_row(summed, out);
  if (!narrow) return true;
  // The balance leaves the offset an error of 6e-7 of tv at worst, and log l_q and Σ(y − m_q)·q one of 2e-7
  // of log l_q, unless the column with the largest y is that with the largest z, which is left out of both.
  constexpr double kSmallPart = 0.005, kSmallEntropy = 4e-3;
  return !(std::abs(at(out, Metric::log_ratio)) < kSmallPart * terms.tv) &&
         !(at(out, Metric::entropy_inf) < kSmallEntropy * std::log(sums.l_q));
}

}  // namespace driftgate::gpu::cpu
