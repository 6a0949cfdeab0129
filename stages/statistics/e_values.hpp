#pragma once

#include <cstdint>
#include <span>

namespace driftgate::stages {

/// The mean over `planned` starts, of which `begun` run; the others count as 1, so that the plan and not the
/// data chooses the weights (docs/design/statistics.md, "Planned starts"). The arithmetic mean of e-values is
/// an e-value under any dependence, and that of e-processes on one filtration is an e-process; no other
/// symmetric function does better without further assumptions (Vovk & Wang, Ann. Statist. 2021, section 3).
[[nodiscard]] double mean_over_starts(std::span<const double> begun, std::uint32_t planned);

/// The same with half of the weight on the first start and the rest shared equally by the later ones, since
/// harm is most often present from the beginning.
[[nodiscard]] double first_start_e_value(std::span<const double> begun, std::uint32_t planned);

/// Σ w_i·e_i for weights that were fixed beforehand and sum to at most 1. It is an e-value under any
/// dependence.
[[nodiscard]] double weighted_e_value(std::span<const double> e_values, std::span<const double> weights);

}  // namespace driftgate::stages
