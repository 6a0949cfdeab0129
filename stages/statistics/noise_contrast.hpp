#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stages/statistics/betting_martingale.hpp"
#include "stages/statistics/mean_test.hpp"

namespace driftgate::stages {

/// One mirrored request that was answered by the candidate and by two copies of the incumbent, the primary
/// and the secondary.
struct NoiseTriple {
  bool candidate_differs = false;  ///< from the primary
  bool secondary_differs = false;  ///< from the primary
  std::uint64_t cluster = 0;       ///< sticky key; answers with the same number are dependent
};

/// Tests the mean of 1{candidate ≠ primary} − 1{secondary ≠ primary} against `max_excess`: how much more
/// often the candidate's answers differ than the incumbent's own noise makes them differ
/// (docs/design/statistics.md, "Noise arm"). Betting, exact; each key counts once. Assumes that both copies
/// of the incumbent are alike. Noise can hide a difference, so that a value of at most 0 is no evidence that
/// the kernels are equal; details.no_evidence_of_equality is then 1. Undecidable without triples.
[[nodiscard]] MeanTest noise_contrast(std::span<const NoiseTriple> triples, double max_excess, double alpha,
                                      std::uint64_t seed);

/// The same on a stream, with one triple of each key. Valid under continuous monitoring.
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

/// A sentence on what an excess does and does not show.
[[nodiscard]] std::string noise_statement(double excess);

}  // namespace driftgate::stages
