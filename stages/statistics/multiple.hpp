#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace driftgate::stages {

/// Which of the hypotheses are rejected at family level alpha (Holm 1979): valid for any dependence.
[[nodiscard]] std::vector<bool> holm(std::span<const double> p_values, double alpha);
/// Holm's procedure on e-values, whose inverses are p-values (Vovk & Wang, Ann. Statist. 2021).
[[nodiscard]] std::vector<bool> e_holm(std::span<const double> e_values, double alpha);

/// α_k = 6α/(π²k²), k = 1, 2, …: what the k-th run of a fixed-data stage spends; the sum is α.
[[nodiscard]] double fixed_data_alpha(double alpha, std::uint32_t k);
/// α·2^{−k}: what the k-th run of a streaming stage spends; the sum is α.
[[nodiscard]] double streaming_alpha(double alpha, std::uint32_t k);

}  // namespace driftgate::stages
