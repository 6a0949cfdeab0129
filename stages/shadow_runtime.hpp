#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gpu/table/measurement.hpp"
#include "schema/contract/contract.hpp"
#include "stages/greedy_agreement.hpp"
#include "stages/report/report.hpp"

namespace driftgate::stages {

/// How a request ended on one side. `excluded` requests are in no denominator, such as those that the client
/// ended.
enum class RequestOutcome : std::uint8_t { ok, failed, excluded };

/// The latencies of one answer as the router measured them; NaN where there is none.
struct Latencies {
  double ttft_ms = std::numeric_limits<double>::quiet_NaN();
  double inter_token_ms = std::numeric_limits<double>::quiet_NaN();
  double total_ms = std::numeric_limits<double>::quiet_NaN();
};

/// One mirrored request with the answers of the incumbent and the candidate.
struct ShadowPair {
  std::uint64_t order = 0;     ///< order of routing
  std::uint64_t key_hash = 0;  ///< hash of the sticky key
  std::string slice;           ///< canonical text, "domain=code;language=de"
  RequestOutcome incumbent = RequestOutcome::ok, candidate = RequestOutcome::ok;
  Latencies incumbent_latency, candidate_latency;
  /// Requests at each engine when it was asked, with this one; absent where that is not known.
  std::optional<std::uint32_t> incumbent_in_flight, candidate_in_flight;
  /// Both engines gave log-probabilities: of the same tokens where both can score given ones, else of the
  /// tokens of their own greedy answers to the same request.
  bool has_logprobs = false;
  /// Where an engine cannot score given tokens: the number of generated tokens before the first difference,
  /// and the number of tokens that were compared.
  std::optional<std::uint32_t> equal_tokens, compared_tokens;
  /// Where the contract asks for batch_variant_rate: whether the candidate's greedy tokens for this prompt
  /// differ between batch 1 and batch N.
  std::optional<bool> batch_variant;
  /// Greedy answers of both kernels to this prompt; and of the candidate alone and in a batch, which is the
  /// noise floor of the former. Absent where they were not asked for, and where an answer does not list all
  /// of its tokens.
  std::optional<GreedyAgreement> greedy, greedy_floor;
  /// An engine listed fewer tokens of its greedy answer than it generated, so that they are not compared.
  bool unlisted_tokens = false;
};

/// The kernel that is on the train side of ShadowInputs::realised.
enum class Reference : std::uint8_t { incumbent, train };

/// What shadow-runtime decides on.
struct ShadowInputs {
  StageInputs stage;
  std::vector<ShadowPair> pairs;  ///< sorted by `order`; the first pair of each key counts
  /// Log-probabilities of the same tokens by both engines (`gpu::measure_target_tokens`). A sequence is one
  /// pair, and its `cluster` is the pair's sticky key.
  std::optional<gpu::MeasurementTable> realised;
  Reference reference = Reference::incumbent;
  std::uint64_t logprobs_wanted = 0;  ///< requests for which log-probabilities were requested
  std::string no_logprobs;            ///< why they were requested of none, or ""
  std::int64_t telemetry_age_ms = 0;  ///< age of the newest telemetry window at the end of the stage
  /// Requests that were not mirrored because a limit of the mirror was reached.
  std::uint64_t mirror_skipped = 0;
  bool can_rescore = true;  ///< both engines can score given tokens
};

/// Decides the clauses whose stages include shadow-runtime (by default those of runtime and observability)
/// once, by fixed-data tests.
/// - error_rate: Clopper–Pearson limits, or paired outcomes for `max_delta`, on the first pair of each key.
/// - latencies: order statistics for quantiles, Student's t on the logarithms for means, on the first pair of
///   each key: harm by those in which the candidate had no more requests in flight than the incumbent, that a
///   limit is kept by those in which it had no fewer, both by all where that is not known.
/// - metrics of target tokens: all pairs, clustered by key.
/// - batch_variant_rate: the prompts that were answered alone and in a batch, one for each key.
/// - metrics of greedy answers: all prompts that both engines answered greedily, clustered by key
///   (decide_greedy).
///
/// A clause that names critical slices is decided on each of them, where a violation must withstand Holm's
/// procedure; any other clause is decided on all pairs. Never fails: what cannot be decided is inconclusive
/// or an error, with the reason.
[[nodiscard]] StageReport evaluate_shadow_runtime(const schema::Contract& contract,
                                                  const ShadowInputs& inputs);

}  // namespace driftgate::stages
