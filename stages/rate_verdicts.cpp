#include <fmt/format.h>

#include "stages/canary_streams.hpp"
#include "stages/traffic_rules.hpp"
#include "stages/wording.hpp"

namespace driftgate::stages {

using schema::ClauseVerdict;
using schema::Verdict;

ClauseVerdict RateStream::begin(std::uint64_t seed, const char* limit_kind, double limit) const {
  ClauseVerdict verdict = begin_verdict(head.clause, head.where, head.role, levels_.alpha_harm, seed);
  verdict.limit_kind = limit_kind;
  verdict.threshold = limit;
  verdict.rule = schema::VerdictRule::e_value;
  verdict.details["e_harm_needed"] = levels_.harm_needed(head);
  return verdict;
}

ClauseVerdict RateStream::max_verdict(std::uint64_t seed) const {
  const double max = *head.clause.limits.max;
  const double proof_at = 1 / (levels_.alpha_advance * head.level_factor());
  ClauseVerdict verdict = begin(seed, "max", max);
  const double harm_at = verdict.details["e_harm_needed"];
  verdict.method = "betting on the first request of each key, caps 0.5 and 0.99";
  verdict.n = verdict.clusters = counts_.keys;
  if (counts_.keys > 0)
    verdict.estimate = static_cast<double>(counts_.failed_keys) / static_cast<double>(counts_.keys);
  verdict.e_value = e_harm();
  verdict.details["e_proof"] = e_proof();
  verdict.details["e_proof_needed"] = proof_at;
  verdict.details["alpha_advance"] = levels_.alpha_advance * head.level_factor();
  verdict.details["failed_keys"] = static_cast<double>(counts_.failed_keys);
  const std::string start = fmt::format("the candidate failed the first request of {} of {} keys{} ({})",
                                        count_text(counts_.failed_keys), count_text(counts_.keys),
                                        on_slice(head.where), percent(verdict.estimate.value_or(0)));
  if (*verdict.e_value >= harm_at) {
    verdict.verdict = Verdict::violated;
    const bool lately = verdict.estimate.value_or(1) <= max;
    verdict.message = fmt::format("{}: e-value {} reaches {}, so its rate is over the max of {}{}.", start,
                                  figure(*verdict.e_value), figure(harm_at), percent(max),
                                  lately ? ", if not from the beginning then since a later step began" : "");
  } else if (e_proof() >= proof_at) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: proof e-value {} reaches {}, so its rate is under the max of {}.",
                                  start, figure(e_proof()), figure(proof_at), percent(max));
  } else if (requirement(head.clause) == schema::Requirement::no_harm) {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = start + ": no harm shown, and no proof is asked for.";
  } else {
    verdict.message = fmt::format(
        "{}: proof e-value {} of {} needed against the max of {}, harm e-value {} of {}. "
        "Without a further failure more keys will decide.",
        start, figure(e_proof()), figure(proof_at), percent(max), figure(*verdict.e_value), figure(harm_at));
  }
  return verdict;
}

ClauseVerdict RateStream::ratio_verdict(std::uint64_t seed) const {
  const double ratio = *head.clause.limits.max_ratio;
  ClauseVerdict verdict = begin(seed, "max_ratio", ratio);
  const double harm_at = verdict.details["e_harm_needed"];
  verdict.method = "label e-process on the first failure of each key, 16 alternatives";
  verdict.n = verdict.clusters = counts_.failures;
  verdict.e_value = e_label();
  verdict.details["candidate_failures"] = static_cast<double>(counts_.candidate_failures);
  verdict.details["not_evaluable_failures"] = static_cast<double>(counts_.skipped);
  const std::string start =
      fmt::format("of {} keys that failed{} the candidate served {}; e-value {} of {}", count_text(verdict.n),
                  on_slice(head.where), count_text(counts_.candidate_failures), figure(*verdict.e_value),
                  figure(harm_at));
  if (*verdict.e_value >= harm_at) {
    verdict.verdict = Verdict::violated;
    verdict.message =
        fmt::format("{}: it fails over {} times as often as the incumbent.", start, figure(ratio));
    return verdict;
  }
  verdict.verdict = Verdict::pass;
  verdict.no_harm_only = true;
  verdict.message = start + ": no harm against the incumbent is shown.";
  if (counts_.skipped > 0) {
    verdict.message += fmt::format(
        " {} failures came while the incumbent had under 5% of traffic and are not evaluable "
        "as a ratio: the max decides there.",
        count_text(counts_.skipped));
  }
  return verdict;
}

ClauseVerdict RateStream::delta_verdict(std::uint64_t seed) const {
  const double delta = *head.clause.limits.max_delta;
  const double proof_at = 1 / (levels_.alpha_advance * head.level_factor());
  ClauseVerdict verdict = begin(seed, "max_delta", delta);
  const double harm_at = verdict.details["e_harm_needed"];
  verdict.method = "betting on the first request of each key, weighted by the share of its arm, cap 0.5";
  if (!difference_.empty()) {
    verdict.n = verdict.clusters = difference_.front().keys();
    if (verdict.n > 0) verdict.estimate = difference_.front().estimate();
  }
  verdict.e_value = e_delta_harm();
  verdict.details["e_proof"] = e_delta_proof();
  verdict.details["e_proof_needed"] = proof_at;
  const std::string start =
      fmt::format("over {} keys{} the candidate's failure rate is {} above the incumbent's",
                  count_text(verdict.n), on_slice(head.where), percent(verdict.estimate.value_or(0)));
  if (*verdict.e_value >= harm_at) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: e-value {} reaches {}, so it is over the max_delta of {}.", start,
                                  figure(*verdict.e_value), figure(harm_at), percent(delta));
  } else if (e_delta_proof() >= proof_at) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: proof e-value {} reaches {}, so it is within the max_delta of {}.",
                                  start, figure(e_delta_proof()), figure(proof_at), percent(delta));
  } else if (requirement(head.clause) == schema::Requirement::no_harm) {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = start + ": no harm shown, and no proof is asked for.";
  } else {
    verdict.message = fmt::format(
        "{}: proof e-value {} of {} needed against the max_delta of {}, harm e-value {} of {}.", start,
        figure(e_delta_proof()), figure(proof_at), percent(delta), figure(*verdict.e_value), figure(harm_at));
  }
  return verdict;
}

}  // namespace driftgate::stages
