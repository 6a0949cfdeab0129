#pragma once

#include "gpu/cpu/moment_kernel.hpp"

namespace driftgate::gpu::cpu {

/// Moves the pivot by `delta` (d' becomes d' − delta) and x by `rise` (x − top becomes smaller by it).
void move(MomentSums& sums, std::size_t form, double delta, double rise);
/// One column by itself: e, d' and x − top.
struct MomentColumn {
  double e, d, x;
};
/// Adds it to the sums over e.
void add_column(MomentSums& sums, const MomentColumn& column);
/// Multiplies every e by `factor`.
void scale(MomentSums& sums, double factor);

/// Figures of a row from its sums and the column that stands alone. Shares of e, d about offset. See
/// gpu/cpu/README.md, "Moments".
struct MomentFigures {
  double rest;     ///< Σe over the e of that column, − 1
  double log_sum;  ///< log Σe, e being 1 where x = top
  double offset;   ///< o: d = d' + o
  double growth;   ///< Σ e^{−d'} over Σe, = e^o
  double kl_train_inf, kl_inf_train, js, hellinger2, chi2;
  double entropy_train, entropy_inf;
  double low, high;       ///< range of d
  double mean;            ///< Σe·d'/Σe
  double second, fourth;  ///< Σe·d²/Σe, Σe·d⁴/Σe
  double remainder;       ///< bound of what the series leave out, relative to the divergences
  double cross_left;      ///< likewise of entropy_inf, absolute
  double lost;            ///< how many times larger than their sum the terms of Σe·d² were
};

/// `sums` are those without the column `alone`; x is at most top in all. `weight_error` ε: e stands for
/// e^{x(1+ε)}. `stretch` ρ: d' is ρ times too small.
[[nodiscard]] MomentFigures figures_of(const MomentSums& sums, std::size_t form, const MomentColumn& alone,
                                       double weight_error, double stretch);

/// What of a row's sums does not hold. raise: more powers would.
enum class MomentFault { none, cancelled, raise };
/// `bulk`: the largest Σ of terms of Σe·d'² that a move of the pivot met, over Σe. `remainder`: what the
/// series may leave out of a divergence.
[[nodiscard]] MomentFault fault_of(const MomentFigures& figures, double bulk, double remainder);
inline constexpr double kMostRemainder = 2e-7;
/// A part of a row leaves this much, so that what parts say of a row seldom leaves more than a row may.
inline constexpr double kMostRemainderOfPart = 1e-7;
/// Bound of what the series leave out about the pivot, times Σe; `reach`: the largest |d'|.
[[nodiscard]] double left_out(const double* m, std::size_t form, double reach);

/// Where columns stand whose sums are known.
struct MomentPlace {
  double top, top_inf;  ///< largest z and y
  double pivot;
  double n, mean_drift, m2, min_drift, max_drift;
};
/// The sums of pass 1 that the figures stand for.
[[nodiscard]] Pass1 pass1_of(const MomentFigures& figures, const MomentPlace& place);

}  // namespace driftgate::gpu::cpu
