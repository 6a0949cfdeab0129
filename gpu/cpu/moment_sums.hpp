#pragma once

#include "gpu/cpu/moment_kernel.hpp"

namespace driftgate::gpu::cpu {

/// Moves the pivot by `delta` (d' becomes d' − delta) and top by `rise` (x − top decreases by it).
void move(MomentSums& sums, std::size_t form, double delta, double rise);
/// The column that is kept apart from the sums: e, d' and x − top.
struct MomentColumn {
  double e, d, x;
};
/// Adds the column to the sums over e.
void add_column(MomentSums& sums, const MomentColumn& column);
/// Multiplies every e by `factor`.
void scale(MomentSums& sums, double factor);

/// The figures of a row from its sums and the column kept apart. e as a share of the whole, d about the
/// offset. See gpu/cpu/README.md, "Moments".
struct MomentFigures {
  double rest;     ///< Σe over the e of the column kept apart, minus 1
  double log_sum;  ///< log Σe, where e = 1 at x = top
  double offset;   ///< o: d = d' + o
  double growth;   ///< Σ e^{−d'} over Σe, = e^o
  double kl_train_inf, kl_inf_train, js, hellinger2, chi2;
  double entropy_train, entropy_inf;
  double low, high;       ///< range of d
  double mean;            ///< Σe·d'/Σe
  double second, fourth;  ///< Σe·d²/Σe, Σe·d⁴/Σe
  double remainder;       ///< bound of the truncation error of the series, relative to the divergences
  double cross_left;      ///< bound of the truncation error of entropy_inf, absolute
  double lost;            ///< cancellation in Σe·d²: sum of |terms| over the sum
};

/// `sums` exclude the column `alone`; x ≤ top in all columns. `weight_error` ε: e stands for e^{x(1+ε)}.
/// `stretch` ρ: d' is too small by a factor of ρ.
[[nodiscard]] MomentFigures figures_of(const MomentSums& sums, std::size_t form, const MomentColumn& alone,
                                       double weight_error, double stretch);

/// Why the figures from moments are not accurate enough. more_powers: a form with more powers may be.
enum class MomentFault { none, cancelled, more_powers };
/// `bulk`: the largest sum of |terms| of Σe·d'² that cancelled when the pivot was moved, over Σe.
/// `remainder`: the permitted truncation error of a divergence, relative.
[[nodiscard]] MomentFault fault_of(const MomentFigures& figures, double bulk, double remainder);
inline constexpr double kMostRemainder = 2e-7;
/// The limit for a part of a row, lower so that the merged row seldom exceeds its own limit.
inline constexpr double kMostRemainderOfPart = 1e-7;
/// Bound of the truncation error of the series about the pivot, times Σe; `reach`: the largest |d'|.
[[nodiscard]] double left_out(const double* m, std::size_t form, double reach);

/// Extremes and moments of z − y of the columns whose sums are known.
struct MomentPlace {
  double top, top_inf;  ///< largest z and y
  double pivot;
  double n, mean_drift, m2, min_drift, max_drift;
};
/// Converts the figures to equivalent sums of pass 1.
[[nodiscard]] Pass1 pass1_of(const MomentFigures& figures, const MomentPlace& place);

}  // namespace driftgate::gpu::cpu
