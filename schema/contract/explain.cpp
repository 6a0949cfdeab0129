#include "schema/contract/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "schema/contract/contract_blocks.hpp"
#include "schema/contract/contract_guard.hpp"
#include "schema/contract/contract_means.hpp"
#include "schema/json.hpp"

namespace driftgate::schema {
namespace {

std::string seconds_text(std::int64_t ms) {
  if (ms % 60'000 == 0 && ms > 0) return fmt::format("{} min", ms / 60'000);
  if (ms % 1'000 == 0) return fmt::format("{} s", ms / 1'000);
  return fmt::format("{} ms", ms);
}

std::string percent_text(std::uint32_t bp) {
  return ecmascript_number(bp / 100.0) + "%";
}

// Four significant digits: these figures are for reading.
std::string figure(double value) {
  return fmt::format("{:.4g}", value);
}

std::string subject_text(const Subject& subject) {
  if (const auto* metric = std::get_if<MetricSubject>(&subject)) {
    const std::string name(to_string(metric->metric));
    if (metric->band && metric->aggregate == Aggregate::mean)
      return fmt::format("{}, {} over tokens", name, to_string(*metric->band));
    if (metric->band) return fmt::format("{}, {}", name, to_string(*metric->band));
    return metric->aggregate ? fmt::format("{} of {}", to_string(*metric->aggregate), name) : name;
  }
  if (const auto* bound = std::get_if<BoundSubject>(&subject)) {
    return fmt::format("the bound on {} per {}", to_string(bound->bound),
                       bound->horizon == Horizon::token ? "token" : "sequence");
  }
  if (const auto* outcome = std::get_if<OutcomeSubject>(&subject)) return "outcome " + outcome->outcome;
  if (const auto* exact = std::get_if<ExactSubject>(&subject)) {
    return fmt::format("{} equal bit by bit", to_string(exact->tensor));
  }
  return "signal " + std::string(to_string(std::get<SignalSubject>(subject).signal));
}

/// The population of a quantile of captures.
std::string over_text(const Clause& clause) {
  const auto* metric = std::get_if<MetricSubject>(&clause.subject);
  if (metric == nullptr || !metric->aggregate || !quantile_of(*metric->aggregate)) return {};
  const MetricGroup group = info(metric->metric).group;
  if (group != MetricGroup::row && group != MetricGroup::realised) return {};
  if (clause.over == QuantileOver::sequences) return " over the means of sequences";
  return clause.over == QuantileOver::rows ? " over all rows" : " over the rows of an average sequence";
}

std::vector<std::string> limit_words(const Limits& limits) {
  std::vector<std::string> words;
  const auto number = [](double value) { return ecmascript_number(value); };
  if (limits.max) words.push_back("at most " + number(*limits.max));
  if (limits.max && limits.floor_multiple && limits.floor_cap) {
    words.back() += fmt::format(" (or {} times the noise floor, never over {})",
                                number(*limits.floor_multiple), number(*limits.floor_cap));
  }
  if (limits.min) words.push_back("at least " + number(*limits.min));
  if (limits.max_ratio)
    words.push_back(fmt::format("at most {} times the incumbent's", number(*limits.max_ratio)));
  if (limits.max_delta) words.push_back("within " + number(*limits.max_delta) + " of the other kernel's");
  if (limits.non_inferiority_margin) {
    words.push_back(fmt::format("worse by less than {}", number(*limits.non_inferiority_margin)));
  }
  if (limits.min_coverage)
    words.push_back("on at least " + number(*limits.min_coverage * 100) + "% of requests");
  if (limits.min_count) words.push_back(fmt::format("at least {} of them", *limits.min_count));
  if (limits.max_staleness_ms) words.push_back("not older than " + seconds_text(*limits.max_staleness_ms));
  return words;
}

/// From how many sequences on a slice is decided, where some clause is about slices.
std::vector<std::string> size_plan(const Contract& contract) {
  std::vector<std::string> own;
  bool any = false;
  for (const Clause& clause : contract.clauses) {
    any = any || !clause.slices.empty();
    if (clause.min_sequences)
      own.push_back(fmt::format("{} from {} on", clause.address(), *clause.min_sequences));
  }
  if (!any) return {};
  const std::string others = own.empty() ? "" : fmt::format(" ({})", fmt::join(own, ", "));
  return {fmt::format("decides slices of at least {} sequences{}", contract.slices.min_sequences, others)};
}

/// What a clipped mean and its quantile clause together say of the mean as it is, for values with a largest
/// one.
std::vector<std::string> certified_plan(const Contract& contract, Stage stage) {
  std::vector<std::string> plan;
  for (const Clause& clause : contract.clauses) {
    const Clause* beside = quantile_beside(clause, contract);
    if (beside == nullptr || (clause.stages & stage_bit(stage)) == 0) continue;
    const auto& quantile = std::get<MetricSubject>(beside->subject);
    if (clause.limits.floor_multiple || !has_finite_range(quantile.metric)) continue;
    const double share = 1 - *quantile_of(*quantile.aggregate);
    const double end = info(quantile.metric).high;
    if (!std::isfinite(end)) continue;
    plan.push_back(fmt::format(
        "with {} and {} passed, the mean without the clip is at most {} ({} + {}·({} − {}))",
        clause.address(), beside->address(), figure(*clause.limits.max + share * (end - *clause.clip)),
        ecmascript_number(*clause.limits.max), figure(share), figure(end), ecmascript_number(*clause.clip)));
  }
  return plan;
}

std::vector<std::string> search_plan(const Contract& contract) {
  if (!contract.slices.discover) return {};
  std::vector<std::string> searched;
  for (const Clause& clause : contract.clauses) {
    if (discovery_searches(clause)) searched.push_back(clause.address());
  }
  if (searched.empty()) return {"searches no slice: no clause here has a figure that can be searched"};
  const Slices::Discover& discover = *contract.slices.discover;
  const std::string blocking = discover.max_ratio
                                   ? fmt::format("blocks over {} times as much, and else is reported",
                                                 ecmascript_number(*discover.max_ratio))
                                   : "is reported and does not block";
  return {fmt::format(
              "searches combinations of up to {} of {} on one half of the corpus and tests the worst on the "
              "other, for {}: what it finds {}",
              discover.depth, fmt::join(contract.slices.dimensions, ", "), fmt::join(searched, ", "),
              discover.block ? "blocks" : "is reported and does not block"),
          "compares each of these slices with the rest of the corpus: one that drifts more " + blocking};
}

std::vector<std::string> shadow_plan(const ShadowPlan& plan) {
  return {fmt::format("mirrors {} of live requests for {} to {} and decides once, at its planned end",
                      percent_text(plan.mirror_bp), seconds_text(plan.min_duration_ms),
                      seconds_text(plan.max_duration_ms))};
}

std::vector<std::string> canary_plan(const std::optional<CanaryPlan>& plan) {
  if (!plan) return {"has no steps: no promotion can end under this contract"};
  std::vector<std::string> steps;
  for (const CanaryStep& step : plan->steps) {
    std::string text = percent_text(step.share_bp);
    if (step.approval && step.approvals == 1) text += " (left only with an approval)";
    if (step.approval && step.approvals > 1)
      text += fmt::format(" (left only with the approvals of {} people)", step.approvals);
    steps.push_back(std::move(text));
  }
  return {
      fmt::format("raises the candidate's share through {}", fmt::join(steps, ", ")),
      fmt::format("stays on each step for {} and {} new sticky keys at least; bakes for {}; keeps {} on the "
                  "incumbent to the end",
                  seconds_text(plan->soak_ms), plan->min_keys, seconds_text(plan->bake_ms),
                  percent_text(plan->holdback_bp)),
      fmt::format("freezes when telemetry is older than {} and goes back when it is older than {}",
                  seconds_text(plan->freeze_after_ms), seconds_text(plan->revert_after_ms))};
}

void explain_bounds(const Contract& contract, Explanation& out) {
  std::optional<double> tolerance;
  for (const Clause& clause : contract.clauses) {
    const auto* bound = std::get_if<BoundSubject>(&clause.subject);
    if (bound != nullptr && bound->bound == Bound::reward && clause.limits.max) {
      tolerance = std::min(tolerance.value_or(HUGE_VAL), *clause.limits.max);
    }
    const auto* metric = std::get_if<MetricSubject>(&clause.subject);
    if (metric != nullptr && metric->metric == Metric::logit_span && clause.limits.max &&
        (!out.allowed_span || *clause.limits.max > *out.allowed_span)) {
      out.allowed_span = *clause.limits.max;
      out.allowed_span_clause = clause.address();
    }
  }
  const Assumptions& assumptions = contract.assumptions;
  if (tolerance && assumptions.reward && assumptions.max_tokens > 0) {
    const double width = assumptions.reward->max - assumptions.reward->min;
    out.largest_span = 4 * *tolerance / (width * std::sqrt(assumptions.max_tokens));
    out.bound_chain.push_back(
        fmt::format("a logit_span of at most {} on every reachable prefix keeps the reward within {} over {} "
                    "tokens (link 7; that "
                    "every prefix is bounded is an assumption that captures cannot check)",
                    figure(*out.largest_span), ecmascript_number(*tolerance), assumptions.max_tokens));
  }
  if (!assumptions.policy) return;
  const double c = assumptions.policy->ppo_clip;
  out.clip_room = std::min(std::log1p(c), -std::log1p(-c));
  std::string text =
      fmt::format("a PPO clip of {} leaves a policy update {} of log-ratio when the kernels agree",
                  ecmascript_number(c), figure(*out.clip_room));
  if (out.allowed_span) {
    out.clip_room_left = *out.clip_room - *out.allowed_span;
    text += fmt::format(", and {} at the span of {} that {} allows{}", figure(*out.clip_room_left),
                        ecmascript_number(*out.allowed_span), out.allowed_span_clause,
                        *out.clip_room_left < 0 ? ": the kernels alone may exceed the clip" : "");
  }
  out.bound_chain.push_back(text + " (link 6)");
}

void explain_escalation(const Escalation& escalation, Explanation& out) {
  for (const EscalationRule& rule : escalation.rules) {
    std::string text = "a violation of " + rule.match;
    if (rule.severity) text += fmt::format(" ({})", to_string(*rule.severity));
    if (rule.slice) text += fmt::format(" on {}", slice_text(*rule.slice));
    if (rule.any_slice) text += " on all or any slice";
    if (rule.stage) text += fmt::format(" in {}", to_string(*rule.stage));
    if (rule.guard) text += " in the guard";
    out.escalation.push_back(fmt::format("{}: {}", text, to_string(rule.action)));
  }
  out.escalation.push_back(fmt::format("any other violation: hard {}, soft {}",
                                       to_string(escalation.hard_default),
                                       to_string(escalation.soft_default)));
}

}  // namespace

std::string demand_text(const Clause& clause) {
  std::string subject = subject_text(clause.subject);
  subject += over_text(clause);
  if (clause.clip)
    subject += fmt::format(", each sequence's counted as at most {},", ecmascript_number(*clause.clip));
  std::string text = fmt::format("{} {}", subject, fmt::join(limit_words(clause.limits), " and "));
  for (const SliceRole role : clause.slices) {
    text +=
        role == SliceRole::critical ? ", on each critical slice" : ", no proven harm on any monitored slice";
  }
  return text;
}

Explanation explain(const Contract& contract, std::uint32_t k) {
  Explanation out{contract.name,
                  contract.digest,
                  contract.train_kernel,
                  contract.inf_kernel,
                  k,
                  {},
                  {},
                  {},
                  {},
                  {},
                  {},
                  {},
                  {},
                  guard_plan(contract)};
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    StageDemands demands{stage, {}, {}};
    if (stage == Stage::statistical_slice) {
      demands.plan = size_plan(contract);
      std::ranges::move(search_plan(contract), std::back_inserter(demands.plan));
    }
    if (stage == Stage::shadow_runtime) demands.plan = shadow_plan(contract.shadow);
    if (stage == Stage::canary) {
      demands.plan = canary_plan(contract.canary);
      for (std::string& sentence : blocks_plan(contract)) demands.plan.push_back(std::move(sentence));
    }
    std::ranges::move(certified_plan(contract, stage), std::back_inserter(demands.plan));
    for (const Clause& clause : contract.clauses) {
      for (LeastN& needs : least_n(clause, contract, Runs(k))) {
        if (needs.stage != stage) continue;
        demands.demands.push_back({clause.address(), clause.severity, requirement_of(clause),
                                   demand_text(clause), std::move(needs)});
      }
    }
    out.stages.push_back(std::move(demands));
  }
  explain_bounds(contract, out);
  explain_escalation(contract.escalation, out);
  return out;
}

}  // namespace driftgate::schema
