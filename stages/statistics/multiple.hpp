#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace driftgate::stages {

/// Which hypotheses Holm's procedure rejects at family level alpha (Holm, Scand. J. Statist. 1979). Valid
/// under any dependence.
[[nodiscard]] std::vector<bool> holm(std::span<const double> p_values, double alpha);
/// Holm's procedure on e-values, whose inverses are p-values (Vovk & Wang, "E-values: calibration,
/// combination and applications", Ann. Statist. 2021): the family-wise error rate is at most alpha under any
/// dependence. A hypothesis whose e-value is NaN is not rejected.
[[nodiscard]] std::vector<bool> e_holm(std::span<const double> e_values, double alpha);

/// The e-value from which on e-BH rejects among these K: K/(α·k*), where k* is the largest k such that k of
/// the e-values are at least K/(α·k); K/α if there is none (Wang & Ramdas, "False discovery rate control with
/// e-values", JRSS-B 2022). The false discovery rate is at most alpha under any dependence, such as that of
/// overlapping slices.
[[nodiscard]] double e_bh_threshold(std::span<const double> e_values, double alpha);
/// Which hypotheses e-BH rejects: those whose e-value reaches `e_bh_threshold`.
[[nodiscard]] std::vector<bool> e_bh(std::span<const double> e_values, double alpha);

}  // namespace driftgate::stages
