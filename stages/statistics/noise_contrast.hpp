#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stages/statistics/betting_martingale.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// One mirrored request that two copies of the incumbent (primary, secondary) and the candidate answered.
struct NoiseTriple {
  bool candidate_differs = false;  ///< from the primary
  bool secondary_differs = false;  ///< from the primary
  std::uint64_t cluster = 0;       ///< sticky key: answers with the same number are dependent
};

/// The mean of 1{candidate ≠ primary} − 1{secondary ≠ primary} against `max_excess`: how much more often the
/// candidate's answers differ than the incumbent's own noise makes them differ (docs/design/statistics.md,
/// "Noise arm"). Each key counts once: betting, exact. The noise of two copies may hide a difference as well
/// as make one, so a value at or under 0 is no evidence that the kernels are equal:
/// details.no_evidence_of_equality is then 1. Assumes that both copies of the incumbent are alike.
[[nodiscard]] MeanTest noise_contrast(std::span<const NoiseTriple> triples, double max_excess, double alpha,
                                      std::uint64_t seed);

/// The same on a stream, one triple of each key, looked at as often as one likes.
class NoiseContrastProcess {
 public:
  NoiseContrastProcess(double max_excess, double alpha) : process_(max_excess, alpha) {}

  void update(bool candidate_differs, bool secondary_differs);
  [[nodiscard]] double e_harm() const { return process_.e_harm(); }    ///< against "excess ≤ max_excess"
  [[nodiscard]] double e_proof() const { return process_.e_proof(); }  ///< against "excess ≥ max_excess"
  [[nodiscard]] double excess() const { return -process_.mean(); }
  [[nodiscard]] std::uint64_t count() const { return process_.count(); }

  [[nodiscard]] nlohmann::json to_json() const;
  static NoiseContrastProcess from_json(const nlohmann::json& json, double max_excess, double alpha);

 private:
  NonInferiorityProcess process_;
};

/// What may be said of an excess, in a sentence.
[[nodiscard]] std::string noise_statement(double excess);

}  // namespace driftgate::stages
