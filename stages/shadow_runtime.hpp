#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// How one side of a mirrored request ended. `excluded` is outside every denominator.
enum class RequestOutcome : std::uint8_t { ok, failed, excluded };

/// Latencies of one answer, as the router saw them; NaN where there is none.
struct Latencies {
  double ttft_ms = std::numeric_limits<double>::quiet_NaN();
  double inter_token_ms = std::numeric_limits<double>::quiet_NaN();
  double total_ms = std::numeric_limits<double>::quiet_NaN();
};

/// One mirrored request with both answers.
struct ShadowPair {
  std::uint64_t order = 0;
  std::uint64_t key_hash = 0;
  std::string slice;  ///< canonical "domain=code;language=de"
  RequestOutcome incumbent = RequestOutcome::ok, candidate = RequestOutcome::ok;
  Latencies incumbent_latency, candidate_latency;
  bool has_logprobs = false;  ///< log-probabilities of the same tokens from both engines were obtained
  /// Where the engines cannot rescore: tokens equal before the first difference, and tokens compared.
  std::optional<std::uint32_t> equal_tokens, compared_tokens;
  /// Where the contract asks for it: the candidate's greedy tokens for this prompt differ between batch 1
  /// and batch N.
  std::optional<bool> batch_variant;
};

/// Which kernel stands on the train side of `realised`.
enum class Reference : std::uint8_t { incumbent, train };

struct ShadowInputs {
  StageInputs stage;
  std::vector<ShadowPair> pairs;  ///< by `order`; the first of each key counts
  /// Paired log-probabilities of the same tokens (`gpu::measure_target_tokens`); a sequence is one pair
  /// and its `cluster` is the sticky key of that pair.
  std::optional<gpu::MeasurementTable> realised;
  Reference reference = Reference::incumbent;
  std::uint64_t logprobs_wanted = 0;  ///< requests whose log-probabilities were asked for
  std::int64_t telemetry_age_ms = 0;  ///< age of the newest window when the stage ended
  std::uint64_t mirror_skipped = 0;   ///< not mirrored: queue, body or token budget at its limit
  bool can_rescore = true;            ///< both engines can teacher-force
};

/// Decides the clauses whose stages include shadow-runtime (R and O by default) once, with fixed-data
/// tests: error rates by Clopper–Pearson, latency quantiles by order statistics and mean latencies as
/// geometric means by Student's t on the first request of each key, target-token clauses on all pairs,
/// clustered by key, batch_variant_rate on the prompts that were asked alone and in a batch, one of each key.
[[nodiscard]] StageReport evaluate_shadow_runtime(const schema::Contract& contract,
                                                  const ShadowInputs& inputs);

}  // namespace driftgate::stages
