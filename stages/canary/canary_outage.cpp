#include <fmt/format.h>

#include <algorithm>

#include "stages/canary/canary_impl.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

double in_seconds(std::int64_t ms) {
  return static_cast<double>(ms) / 1'000;
}

/// How long the breaker may be open under the clause, in s. Limits that compare with the incumbent allow for
/// its longest stall: a candidate that stalls no longer is not worse.
double patience_s(const schema::Clause& clause, const FailureHistory& incumbent) {
  const double least = in_seconds(kBreakerPatienceMs);
  return clause.limits.max ? least : std::max(least, incumbent.longest_stall_s());
}

}  // namespace

/// An engine that does not answer serves nobody, so every failure rate of it is beyond its limit. That is a
/// census and no test: there is nothing random in an engine that is away, and no α is spent.
void CanaryState::Impl::judge_outage(const EngineDown& down, std::vector<Judged>& judged) const {
  for (const RateStream& stream : rates) {
    const WatchedClause& watched = stream.watched;
    if (watched.role == schema::SliceRole::monitored) continue;
    schema::ClauseVerdict verdict =
        begin_verdict(watched.clause, watched.where, watched.role, levels.alpha_harm, settings.seed);
    verdict.limit_kind = kBreakerLimit;
    verdict.threshold = patience_s(watched.clause, incumbent);
    verdict.estimate = in_seconds(down.open_ms);
    if (*verdict.estimate <= *verdict.threshold) continue;
    verdict.verdict = schema::Verdict::violated;
    verdict.rule = schema::VerdictRule::census;
    verdict.method = "census of the breaker of the candidate's engine";
    verdict.n = down.failures;
    verdict.clusters = 1;
    verdict.details["least_units"] = 1;
    verdict.details["failures"] = down.failures;
    verdict.message = fmt::format(
        "the candidate's engine does not answer ({} failures in a row, the last one {}): its breaker has "
        "been open for {} s, and {} s are allowed.",
        down.failures, down.reason, figure(*verdict.estimate), figure(*verdict.threshold));
    judged.push_back({std::move(verdict), &watched, nullptr, false, false});
  }
}

}  // namespace driftgate::stages
