#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace driftgate::gpu {

/// The filters that K_inf's sampler may have had although its capture does not say so. Each keeps the most
/// likely tokens: of this probability together, of this number, or of at least this share of the largest
/// probability.
inline constexpr std::array kFilterTopP{0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999};
inline constexpr std::array<std::uint32_t, 7> kFilterTopK{1, 5, 10, 20, 50, 100, 200};
inline constexpr std::array kFilterMinP{0.3, 0.1, 0.05, 0.02, 0.01, 0.001};
inline constexpr std::size_t kFilters = kFilterTopP.size() + kFilterTopK.size() + kFilterMinP.size();

/// A filter may be there all the time, or for some sequences or positions only: the bet on it ends and begins
/// again with each of these probabilities a row.
inline constexpr std::array kSwitches{1e-4, 5e-3};
inline constexpr std::size_t kFilterBets = kFilters * kSwitches.size();

/// Bets against tokens that K_train prefers (docs/design/measurement.md, "Link 5: policy gradients"): by
/// their ratio, at λ = 0.01·4^i, and against those whose ratio is over each of these.
inline constexpr std::size_t kRatioBets = 6;
inline constexpr double kLeastLambda = 0.01;
inline constexpr std::array kPreferred{1.05, 1.1, 1.2, 1.4, 1.6, 2.0, 4.0, 10.0};
inline constexpr std::size_t kPreferenceBets = kRatioBets + kPreferred.size();

/// Whether the tokens of some rows of a sequence were sampled from q, as the capture states it
/// (docs/design/measurement.md, "Link 5: policy gradients"). The exponential of each logarithm of wealth is
/// an e-value of that hypothesis; over independent sequences they multiply.
struct SupportSums {
  std::uint32_t rows = 0;
  double p_lost = 0;  ///< Σ over rows of the mass of p on tokens where q is below the least normal float32
  std::array<double, kPreferenceBets> preference{};  ///< logarithms of wealth, by i, then by kPreferred
  /// By filter (top_p, then top_k, then min_p) for the first of kSwitches, then for the next.
  std::array<double, kFilterBets> filters{};
  double untaken = 0;  ///< against tokens that are never taken
  double ranges = 0;   ///< against ranges of ids of which no token is ever taken
  /// Σ over rows of the mass of p outside each filter, and on tokens and ranges by the probability that they
  /// are never taken.
  std::array<double, kFilters> filters_p{};
  double untaken_p = 0, ranges_p = 0;
};

}  // namespace driftgate::gpu
