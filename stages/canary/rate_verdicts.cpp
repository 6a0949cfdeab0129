#include <fmt/format.h>

#include "stages/canary/canary.hpp"
#include "stages/canary/canary_streams.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {

using schema::ClauseVerdict;
using schema::Verdict;

namespace {

constexpr double kSwingsTold = 1;  ///< an excess of which the verdict speaks

std::string how_ratios_are_decided(const RatioContext& ratios) {
  if (ratios.labels_count) return " Failures are not clustered in time, so each one is counted as evidence.";
  if (ratios.dependent) {
    return fmt::format(
        " Failures are clustered in time (longest stall of the incumbent {} s), so blocks of time are "
        "compared and single failures are not counted.",
        figure(ratios.longest_stall_s));
  }
  return fmt::format(
      " Blocks of time are compared; single failures are counted only once the incumbent has been observed "
      "for {} s ({} s so far).",
      figure(kLeastHistoryS), figure(ratios.history_s));
}

/// What is said of an incumbent whose failure rate swings so much that it hides harm, or "".
std::string swings_told(const RatioContext& ratios) {
  if (ratios.swings == schema::Swings::shared)
    return " The contract takes swings of the failure rate to reach both kernels alike (assumptions.swings).";
  if (ratios.wander.excess < kSwingsTold) return {};
  return fmt::format(
      " The incumbent's failure rate swings: over {} s its failures vary {} times as much as independent "
      "ones would. The candidate is allowed as much by itself, which hides part of its harm. If what makes "
      "the rate swing reaches both kernels alike, state assumptions: {{swings: shared}}.",
      count_text(static_cast<std::uint64_t>(ratios.wander.window_s)), figure(1 + ratios.wander.excess));
}

/// What is said of a history in which slow changes cannot show, or "".
std::string short_history(const RatioContext& ratios) {
  if (ratios.swings == schema::Swings::shared || ratios.history_s >= kWantedHistoryS) return {};
  return fmt::format(
      " The incumbent has been observed for {} h; in less than {} h slow changes of its failure rate do not "
      "show.",
      figure(ratios.history_s / 3'600), figure(kWantedHistoryS / 3'600));
}

/// What is said of a step whose blocks do not decide yet, or "".
std::string too_few_blocks(std::uint64_t here) {
  if (here >= BlockProcess::kLeastBlocks) return {};
  return fmt::format(
      " By blocks the ratio is not evaluable at this step yet: {} of {} blocks with requests of both "
      "kernels.",
      here, BlockProcess::kLeastBlocks);
}

}  // namespace

ClauseVerdict RateStream::begin(std::uint64_t seed, const char* limit_kind, double limit) const {
  ClauseVerdict verdict =
      begin_verdict(watched.clause, watched.where, watched.role, levels_.alpha_harm, seed);
  verdict.limit_kind = limit_kind;
  verdict.threshold = limit;
  verdict.rule = schema::VerdictRule::e_value;
  verdict.details["e_harm_needed"] = levels_.harm_needed(watched);
  return verdict;
}

ClauseVerdict RateStream::max_verdict(std::uint64_t seed) const {
  const double max = *watched.clause.limits.max;
  const double proof_at = 1 / (levels_.alpha_advance * watched.level_factor());
  ClauseVerdict verdict = begin(seed, "max", max);
  const double harm_at = verdict.details["e_harm_needed"];
  verdict.method = "betting on the first request of each key, caps 0.5 and 0.99";
  verdict.n = verdict.clusters = counts_.keys;
  if (counts_.keys > 0)
    verdict.estimate = static_cast<double>(counts_.failed_keys) / static_cast<double>(counts_.keys);
  verdict.e_value = e_harm();
  verdict.details["e_proof"] = e_proof();
  verdict.details["e_proof_needed"] = proof_at;
  verdict.details["alpha_advance"] = levels_.alpha_advance * watched.level_factor();
  verdict.details["failed_keys"] = static_cast<double>(counts_.failed_keys);
  const std::string start = fmt::format("the candidate failed the first request of {} of {} keys{} ({})",
                                        count_text(counts_.failed_keys), count_text(counts_.keys),
                                        on_slice(watched.where), percent(verdict.estimate.value_or(0)));
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
  } else if (requirement(watched.clause) == schema::Requirement::no_harm) {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = start + ": no harm shown, and no proof is asked for.";
  } else {
    verdict.message = fmt::format(
        "{}: proof e-value {} of {} needed against the max of {}, harm e-value {} of {}. "
        "If no further key fails, more keys will decide it.",
        start, figure(e_proof()), figure(proof_at), percent(max), figure(*verdict.e_value), figure(harm_at));
  }
  return verdict;
}

void RateStream::add_e_value(const RatioContext& ratios, ClauseVerdict& verdict) const {
  RatioParts parts = ratio_parts(ratios.plan, *watched.clause.limits.max_ratio);
  if (!ratios.labels_count) parts.label = 0;
  const double from_blocks = e_blocks(ratios.wander.excess);
  verdict.e_value = parts.label * e_label() + parts.blocks * from_blocks;
  verdict.details["e_label"] = e_label();
  verdict.details["e_blocks"] = from_blocks;
  verdict.details["label_part"] = parts.label;
  verdict.details["blocks_part"] = parts.blocks;
  if (parts.signs > 0) {
    const double from_signs = e_signs();
    *verdict.e_value += parts.signs * from_signs;
    verdict.details["e_signs"] = from_signs;
    verdict.details["signs_part"] = parts.signs;
    verdict.details["signs_inflation"] = levels_.score_inflation;
    if (!signs_.empty()) {
      verdict.details["blocks_up"] = signs_.front().up();
      verdict.details["blocks_down"] = signs_.front().down();
    }
  }
  verdict.details["failures_inflation"] = ratios.wander.excess;
  verdict.details["failures_inflation_s"] = ratios.wander.window_s;
}

ClauseVerdict RateStream::ratio_verdict(std::uint64_t seed, const RatioContext& ratios) const {
  const double ratio = *watched.clause.limits.max_ratio;
  ClauseVerdict verdict = begin(seed, "max_ratio", ratio);
  const double harm_at = verdict.details["e_harm_needed"];
  const double block_s = static_cast<double>(levels_.block_us) * 1e-6;
  const std::uint64_t blocks = blocks_.empty() ? 0 : blocks_.front().blocks();
  const std::uint64_t here = blocks_.empty() ? 0 : blocks_.back().blocks();
  verdict.method =
      "difference of failure rates over blocks of time and signs of the blocks, label e-process while "
      "failures are independent";
  verdict.approximate = true;
  verdict.n = counts_.failures;
  verdict.clusters = blocks;
  if (!blocks_.empty()) verdict.estimate = blocks_.front().ratio();
  add_e_value(ratios, verdict);
  verdict.details["block_s"] = block_s;
  verdict.details["blocks"] = static_cast<double>(blocks);
  verdict.details["blocks_of_step"] = static_cast<double>(here);
  verdict.details["blocks_needed"] = static_cast<double>(BlockProcess::kLeastBlocks);
  verdict.details["history_s"] = ratios.history_s;
  verdict.details["longest_stall_s"] = ratios.longest_stall_s;
  verdict.details["e_dispersion_incumbent"] = ratios.dispersion_incumbent;
  verdict.details["e_dispersion_candidate"] = ratios.dispersion_candidate;
  verdict.details["candidate_failures"] = static_cast<double>(counts_.candidate_failures);
  verdict.details["not_evaluable_failures"] = static_cast<double>(counts_.skipped);
  const std::string start = fmt::format(
      "of {} keys that failed{} the candidate served {}{}, over {} blocks of {} s; e-value {} of {}",
      count_text(verdict.n), on_slice(watched.where), count_text(counts_.candidate_failures),
      verdict.estimate
          ? fmt::format(" and failed {} times as often as the incumbent", figure(*verdict.estimate))
          : std::string(),
      count_text(blocks), figure(block_s), figure(*verdict.e_value), figure(harm_at));
  if (*verdict.e_value >= harm_at) {
    verdict.verdict = Verdict::violated;
    verdict.message =
        fmt::format("{}: it fails over {} times as often as the incumbent.", start, figure(ratio));
  } else {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = start + ": no harm against the incumbent is shown.";
  }
  verdict.message +=
      how_ratios_are_decided(ratios) + swings_told(ratios) + short_history(ratios) + too_few_blocks(here);
  if (counts_.skipped > 0) {
    verdict.message += fmt::format(
        " {} failures came while the incumbent had under 5% of traffic and are not evaluable "
        "as a ratio: the max decides there.",
        count_text(counts_.skipped));
  }
  return verdict;
}

ClauseVerdict RateStream::delta_verdict(std::uint64_t seed) const {
  const double delta = *watched.clause.limits.max_delta;
  const double proof_at = 1 / (levels_.alpha_advance * watched.level_factor());
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
                  count_text(verdict.n), on_slice(watched.where), percent(verdict.estimate.value_or(0)));
  if (*verdict.e_value >= harm_at) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: e-value {} reaches {}, so it is over the max_delta of {}.", start,
                                  figure(*verdict.e_value), figure(harm_at), percent(delta));
  } else if (e_delta_proof() >= proof_at) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: proof e-value {} reaches {}, so it is within the max_delta of {}.",
                                  start, figure(e_delta_proof()), figure(proof_at), percent(delta));
  } else if (requirement(watched.clause) == schema::Requirement::no_harm) {
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
