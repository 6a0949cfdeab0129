#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace driftgate::stages {

/// Which of the hypotheses are rejected at family level alpha (Holm 1979): valid for any dependence.
[[nodiscard]] std::vector<bool> holm(std::span<const double> p_values, double alpha);
/// Holm's procedure on e-values, whose inverses are p-values (Vovk & Wang, "E-values: calibration,
/// combination and applications", Ann. Statist. 2021): the family-wise error rate is at most alpha for any
/// dependence. An e-value that is NaN counts as 1.
[[nodiscard]] std::vector<bool> e_holm(std::span<const double> e_values, double alpha);

/// The e-value from which e-BH rejects among these K: K/(α·k*), k* the largest k of which k e-values are at
/// least K/(α·k); K/α when there is none (Wang & Ramdas, "False discovery rate control with e-values", JRSS-B
/// 2022). The false discovery rate is at most alpha for any dependence, overlapping slices included.
[[nodiscard]] double e_bh_threshold(std::span<const double> e_values, double alpha);
/// Which of the hypotheses e-BH rejects: those whose e-value reaches `e_bh_threshold`.
[[nodiscard]] std::vector<bool> e_bh(std::span<const double> e_values, double alpha);

/// α_k = 6α/(π²k²), k = 1, 2, …: what the k-th run of a fixed-data stage spends; the sum is α.
[[nodiscard]] double fixed_data_alpha(double alpha, std::uint32_t k);
/// α·2^{−k}: what the k-th run of a streaming stage spends; the sum is α.
[[nodiscard]] double streaming_alpha(double alpha, std::uint32_t k);

}  // namespace driftgate::stages
