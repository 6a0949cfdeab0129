#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/pipeline/service.hpp"
#include "daemon/store/promotions/live_series.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::pipeline {

/// Which run's series, and how much of it.
struct SeriesRequest {
  std::string promotion{};
  std::string stage{};                          ///< "canary", "shadow-runtime"; "" = the newest run of these
  std::optional<std::int64_t> attempt{};        ///< nothing: the newest
  std::int64_t points = store::kMaxLivePoints;  ///< at most so many, evenly chosen, the newest always
  std::optional<std::int64_t> last{};           ///< instead: only the newest points, and as many marks
  bool actors = false;                          ///< show who did what, and the reasons that people gave
};

struct DistributionRequest {
  std::string promotion{}, stage{};
  std::string metric = "tv";  ///< one of the metrics of rows
  std::string slice{};        ///< "domain=code;language=de"; "" = the corpus
};

/// What plots and explanations are made of, read from the store alone. Safe from any thread. Errors:
/// `not_found`, `invalid_argument`, and `corrupt` for what is stored and cannot be read.
class Insight {
 public:
  virtual ~Insight() = default;

  /// {"promotion", "stage" | null, "attempt" | null, "stride", "points": [{"time_us", "step", "phase",
  /// "share_bp", "keys", "exposed_requests", "exposed_keys", "action", "requests": {"candidate",
  /// "incumbent"}, "failures": {…}, "latency": {"ttft_ms": {"candidate": [p50, p90, p99] | null,
  /// "incumbent"}, "total_ms"}}], "clauses": [{"clause", "slice", "severity", "rule", "limit_kind",
  /// "threshold", "alpha", "e_harm_needed", "e_proof_needed", "points": [{"time_us", "n", "clusters",
  /// "estimate", "lower", "upper", "e_value", "e_proof", "verdict"}]}], "marks": [{"time_us", "seq", "kind",
  /// "text", "actor"}], "planned": [{"step", "share_bp", "approval", "min_duration_ms", "bake"}]}. Points of
  /// a shadow stage have "pairs", "mirror_failed" and "mirror_skipped" instead of the ramp. Requests and
  /// failures are since the point before, latencies are of the window of the point.
  virtual schema::Result<View> series(const SeriesRequest& request) = 0;

  /// {"promotion", "stage", "attempt", "metric", "slice", "rows", "sequences", "candidate", "floors":
  /// {"train", "inf"}, "by": {"slice", "position", "entropy", "probability"} | null, "worst": […]}. A
  /// distribution is
  /// {"unit": "rows" | "sequences", "kernels", "n", "edges", "cdf", "mean", "sequence_mean", "min", "max",
  /// "quantiles": {"0.5", …}} or null; that of a slice without a histogram counts the means of its sequences.
  /// `not_found` where no measurement of the stage is stored.
  virtual schema::Result<View> distribution(const DistributionRequest& request) = 0;

  /// {"digest", "name", "yaml", "lint": {"valid", "faults", "warnings"}, "clauses": [{"clause", "family",
  /// "severity", "line" | null, "text", "needs": [{"stage", "least_n" | null, "unit", "alpha", "text"}]}],
  /// "stages", "bounds", "escalation", "guard", "power_at_half", "smallest_regressions",
  /// "text"}
  virtual schema::Result<View> explain_contract(const std::string& digest_or_name) = 0;

  /// {"from": {"digest", "name"}, "to": {…}, "changes": [{"change": "stricter" | "looser" | "new" | "gone" |
  /// "changed", "where", "text", "before" | null, "after" | null}], "text"}
  virtual schema::Result<View> compare_contracts(const std::string& from, const std::string& to) = 0;
};

/// The store must outlive it.
[[nodiscard]] std::unique_ptr<Insight> stored_insight(store::Store& store);

}  // namespace driftgate::pipeline
