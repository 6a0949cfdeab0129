#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace driftgate::pipeline {

/// A stage run's own state between transactions, kept as JSON in its row: what a restart continues from and
/// what views show.
struct StageProgress {
  /// Fixed data: "measuring", "evaluating". Shadow: "applying", "mirroring", "stopping", "rescoring".
  /// Canary: "applying", "ramping", "baking".
  std::string phase;
  std::uint64_t pairs = 0, mirror_failed = 0, mirror_skipped = 0;  ///< shadow
  std::string shadow_keys;  ///< shadow: the text of its ShadowTally
  std::int64_t last_window_us = 0;    ///< when this stage's newest window was read
  std::int64_t telemetry_age_ms = 0;  ///< as it was when the shadow stage ended
  std::uint32_t share_bp = 0;         ///< of the candidate, as wanted now
  bool frozen = false;                ///< the share may not grow
  bool advance_proven = false;
  std::string last_action;      ///< of the canary's newest decision
  std::string waits_for;        ///< why it was taken, in lines: what keeps the share from growing, mostly
  std::string approval_digest;  ///< of the blob that an approval must name
  std::uint64_t keys_in_step = 0, exposed_requests = 0, exposed_keys = 0;
  std::uint64_t failed_requests_candidate = 0, failed_requests_incumbent = 0;
  double max_e_value = 1;             ///< largest e-value for harm among the clauses
  std::int64_t first_failure_us = 0;  ///< routing time of the candidate's first failure; 0 = none
  std::string sample;         ///< canary: "mirroring" or "stopping" by a `sample` order; "" = none
  std::uint32_t samples = 0;  ///< canary: `sample` orders that have ended
  std::uint32_t spent_k = 0;          ///< the α of this run is that of the k-th; 0 = not spent yet
};

[[nodiscard]] std::string to_json(const StageProgress& progress);
/// Absent members keep their defaults; an empty or damaged text gives the defaults.
[[nodiscard]] StageProgress progress_from_json(std::string_view json);

}  // namespace driftgate::pipeline
