#pragma once

#include <cstdint>

#include "daemon/pipeline/stages/progress.hpp"
#include "daemon/route/control/telemetry.hpp"
#include "daemon/store/promotions/live_series.hpp"
#include "stages/canary/canary.hpp"

namespace driftgate::pipeline {

/// The most tests that a point has figures of. Of more, those that are violated come first, then those of
/// hard clauses, then those on all traffic and on critical slices.
inline constexpr std::size_t kMaxLiveClauses = 200;

/// Of fewer answered requests of an arm in a window no latencies are kept: they would be those of single
/// users.
inline constexpr std::size_t kLeastAnswered = 5;

/// What a decision of a canary adds to its series: where the ramp was when it was taken, requests and
/// latencies of the window that it followed from (null: it followed from none), and the figures of every
/// test. `progress` is the run's after the decision was noted in it; its share and phase are those before it
/// is acted on. Body: {"step", "phase", "share_bp", "keys", "exposed_requests", "exposed_keys", "action",
/// "ttft_ms", "total_ms", "clauses": [[n, clusters, estimate, lower, upper, e_value, e_proof, verdict], …]};
/// a latency is {"candidate": [p50, p90, p99] | null, "incumbent": …}, null for fewer than kLeastAnswered
/// requests.
[[nodiscard]] store::LivePoint canary_point(const StageProgress& progress, std::int64_t step,
                                            const stages::CanaryDecision& decision,
                                            const route::Window* window, std::int64_t now_us);

/// What a window adds to the series of a shadow stage: {"phase", "pairs", "mirror_failed", "mirror_skipped",
/// "ttft_ms", "total_ms"}; the counts of `progress` are since the stage began.
[[nodiscard]] store::LivePoint shadow_point(const StageProgress& progress, const route::Window& window,
                                            std::int64_t now_us);

}  // namespace driftgate::pipeline
