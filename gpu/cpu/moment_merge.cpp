#include "gpu/cpu/moment_merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftgate::gpu::cpu {

namespace {

static_assert(DRIFTGATE_MOMENT_POWERS == kMostPowers + 1 && DRIFTGATE_MOMENT_CROSS == kMostCross + 1);

constexpr double kFar = std::numeric_limits<double>::infinity();

/// The common units in which the parts of a row are added.
struct Common {
  std::size_t form = 0;
  std::uint32_t alone = 0;  ///< the part whose kept-apart column is kept apart in the row: the largest
  MomentPlace place{-kFar, -kFar, 0, 0, 0, 0, kFar, -kFar};
};

/// Adds mean and centred sum of squares of z − y over other columns.
void add_spread(MomentPlace& into, const driftgate_pass1& other) {
  const double n = into.n + other.n, gap = other.mean_drift - into.mean_drift;
  into.mean_drift += gap * other.n / n;
  into.m2 += other.m2 + gap * gap * into.n * other.n / n;
  into.n = n;
  into.min_drift = std::min(into.min_drift, other.min_drift);
  into.max_drift = std::max(into.max_drift, other.max_drift);
}

/// The largest number of powers, the largest logits, and the mean drift as pivot. Empty when a part has no
/// moments.
std::optional<Common> common_of(const PartsOfRow& parts) {
  Common out;
  for (std::uint32_t i = 0; i < parts.count; ++i) {
    const driftgate_pass1& sums = parts[i].sums;
    const std::uint32_t form = parts[i].moments.form;
    if (!(sums.n > 0)) continue;
    if (form == 0 || form > kMomentForms) return std::nullopt;
    out.form = std::max<std::size_t>(out.form, form - 1);
    out.place.top = std::max(out.place.top, sums.m_p);
    out.place.top_inf = std::max(out.place.top_inf, sums.m_q);
    add_spread(out.place, sums);
  }
  double mass = 0, drift = 0, most = -1;
  for (std::uint32_t i = 0; i < parts.count; ++i) {
    const driftgate_pass1& sums = parts[i].sums;
    if (!(sums.n > 0)) continue;
    const double factor = std::exp(sums.m_p - out.place.top);
    if (factor * parts[i].moments.alone_e > most) most = factor * parts[i].moments.alone_e, out.alone = i;
    mass += factor * sums.l_p;
    drift += factor * (sums.s + sums.c * sums.l_p);
  }
  out.place.pivot = drift / mass;
  return out;
}

struct Total {
  MomentSums sums{};
  MomentColumn alone{};
  double bulk = 0;
  double left = 0;  ///< bound of the truncation error of parts with fewer powers
};

/// Adds a part. Its column that was kept apart joins the sums, unless it is the one of the row.
void add_part(const driftgate_shard_partial& part, bool alone, const Common& common, Total& total) {
  const driftgate_moments& moments = part.moments;
  const std::size_t form = moments.form - 1;
  MomentSums sums{};
  std::copy_n(moments.powers, kPowers[form] + 1, sums.m);
  std::copy_n(moments.cross, kCross[form] + 1, sums.x);
  const double factor = std::exp(part.sums.m_p - common.place.top);
  if (form < common.form) {
    const double reach = std::max(part.sums.max_drift - part.sums.c, part.sums.c - part.sums.min_drift);
    total.left += factor * left_out(sums.m, form, reach);
  }
  const double delta = common.place.pivot - part.sums.c, rise = common.place.top - part.sums.m_p;
  if (alone) {
    total.alone = {factor * moments.alone_e, moments.alone_drift - delta, moments.alone_x - rise};
  } else {
    add_column(sums, {moments.alone_e, moments.alone_drift, moments.alone_x});
  }
  const double moved = sums.m[2] + 2 * std::abs(delta * sums.m[1]) + delta * delta * sums.m[0];
  total.bulk += factor * std::max(moments.bulk, moved);
  scale(sums, factor);
  move(sums, common.form, delta, rise);
  for (std::size_t k = 0; k <= kPowers[common.form]; ++k) total.sums.m[k] += sums.m[k];
  for (std::size_t k = 0; k <= kCross[common.form]; ++k) total.sums.x[k] += sums.x[k];
}

}  // namespace

driftgate_pass1 packed(const Pass1& s) {
  return {s.m_p, s.l_p, s.s, s.g,         s.a_p,       s.m_q, s.l_q,        s.t,
          s.h,   s.a_q, s.c, s.min_drift, s.max_drift, s.n,   s.mean_drift, s.m2};
}

Pass1 unpacked(const driftgate_pass1& s) {
  Pass1 out{};
  out.m_p = s.m_p, out.l_p = s.l_p, out.s = s.s, out.g = s.g, out.a_p = s.a_p;
  out.m_q = s.m_q, out.l_q = s.l_q, out.t = s.t, out.h = s.h, out.a_q = s.a_q;
  out.c = s.c, out.min_drift = s.min_drift, out.max_drift = s.max_drift;
  out.n = s.n, out.mean_drift = s.mean_drift, out.m2 = s.m2;
  return out;
}

void set_heads(const double (&least_p)[DRIFTGATE_HEADS], Pass2& out) {
  for (std::size_t i = 0; i < kHeads; ++i) out.heads[i] = {least_p[i], kFar, -kFar, 0, 0};
}

void write_heads(const Pass2& sums, driftgate_shard_terms& out) {
  for (std::size_t i = 0; i < kHeads; ++i) {
    const HeadSums& head = sums.heads[i];
    out.heads[i] = {head.min_d, head.max_d, head.tail_p, head.tail_q};
  }
}

std::optional<MergedMoments> merge_moments(const PartsOfRow& parts) {
  const std::optional<Common> common = common_of(parts);
  if (!common) return std::nullopt;
  const MomentPlace& place = common->place;
  Total total;
  for (std::uint32_t i = 0; i < parts.count; ++i) {
    if (parts[i].sums.n > 0) add_part(parts[i], i == common->alone, *common, total);
  }
  total.sums.n = place.n;
  total.sums.low = place.min_drift - place.pivot, total.sums.high = place.max_drift - place.pivot;
  const MomentFigures figures = figures_of(total.sums, common->form, total.alone, 0, 1);
  const double all = total.sums.m[0] + total.alone.e;
  const double left = figures.second > 0 ? total.left / (all * figures.second) : 0;
  if (fault_of(figures, total.bulk / all, kMostRemainder - left) != MomentFault::none) return std::nullopt;
  return MergedMoments{pass1_of(figures, place), figures};
}

}  // namespace driftgate::gpu::cpu
