#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/capture/capture.hpp"
#include "gpu/partial/divergence_bounds.hpp"
#include "gpu/partial/partial_row.hpp"

/// Probabilities of listed tokens, as far as the rounding of their source leaves them open
/// (docs/design/measurement.md, "Rounding of the source").
namespace driftgate::gpu {

/// The largest error of a stored log-probability from its storage alone, in nats. No more can change the
/// order of two tokens of one row, since a softmax in floating point keeps it.
[[nodiscard]] double error_of(double logprob, const LogprobError& error);

/// The largest error of the stored log-probability `logprob`, in nats, beside that of the normaliser of its
/// row: of the storage, of subtraction and exponential, and of the logarithm.
[[nodiscard]] double source_error_of(double logprob, const LogprobError& error);

/// The largest error of the logarithm of a row's normaliser, in nats, which all tokens of the row share.
/// `vocabulary`: 0 where it is unknown.
[[nodiscard]] double normaliser_error(const LogprobError& error, std::uint32_t vocabulary);

/// Bounds of the probability of a token, of which only the log-probability is known. `normaliser`: the error
/// of the logarithm of the row's normaliser, in nats.
[[nodiscard]] Interval mass_of(double logprob, const LogprobError& error, double normaliser);

struct ListedMasses {
  std::vector<Interval> masses;  ///< bounds of the probability of each token
  /// Where the list is the whole vocabulary: bounds of each probability up to a factor that the tokens share.
  /// Otherwise empty.
  std::vector<Interval> scaled;
  ScaledError error;  ///< of `scaled`
};

/// Bounds of the probabilities of the tokens of one list. A list of the whole vocabulary has the mass 1, so
/// that the error of its normaliser cancels.
[[nodiscard]] ListedMasses listed_masses(std::span<const ListedToken> tokens, const LogprobError& error,
                                         std::uint32_t vocabulary);

}  // namespace driftgate::gpu
