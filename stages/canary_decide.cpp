#include <fmt/format.h>

#include <algorithm>

#include "schema/verdict_rule.hpp"
#include "stages/canary_impl.hpp"
#include "stages/traffic_rules.hpp"
#include "stages/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

std::string seconds(std::int64_t ms) {
  return fmt::format("{:.4g} s", static_cast<double>(ms) / 1000);
}

void act(CanaryDecision& decision, CanaryAction action, std::string reason) {
  decision.action = action;
  decision.reasons.insert(decision.reasons.begin(), std::move(reason));
}

}  // namespace

void CanaryState::Impl::collect_verdicts(const CanaryContext& context, CanaryDecision& decision) const {
  for (const RateStream& stream : rates) stream.verdicts(levels, settings.seed, decision.verdicts);
  for (const LatencyStream& stream : latencies)
    decision.verdicts.push_back(stream.verdict(levels, settings.seed));
  SignalFigures figures;
  figures.telemetry_age_ms = context.telemetry_age_ms;
  for (const schema::Clause& clause : signals) {
    if (auto verdict = decide_signal(clause, figures, levels.alpha_harm)) {
      decision.verdicts.push_back(std::move(*verdict));
    } else {
      decision.reasons.push_back(clause.address() +
                                 " was decided in shadow-runtime; a canary measures nothing new of it.");
    }
  }
}

/// A global action may also rest on the mean of all harm e-values of hard clauses: with equal parts this
/// is their sum reaching tests/α. The largest then stands for all.
void CanaryState::Impl::judge_together(CanaryDecision& decision) const {
  const double needed = levels.tests / levels.alpha_harm;
  double sum = 0;
  ClauseVerdict* largest = nullptr;
  for (ClauseVerdict& verdict : decision.verdicts) {
    const bool rate = verdict.e_value && verdict.severity == schema::Severity::hard;
    if (!rate) continue;
    if (verdict.verdict == Verdict::violated) return;
    sum += *verdict.e_value;
    if (largest == nullptr || *verdict.e_value > *largest->e_value) largest = &verdict;
  }
  if (largest == nullptr || sum < needed) return;
  largest->verdict = Verdict::violated;
  largest->details["e_joint"] = sum;
  largest->details["e_joint_needed"] = needed;
  largest->message += fmt::format(
      " Together the harm e-values of all hard clauses reach {} of {} needed, and this one is "
      "the largest.",
      figure(sum), figure(needed));
}

/// Verdicts of tripped streams stay violated until the stream was clean for long enough.
void CanaryState::Impl::follow_trips(const CanaryContext& context, CanaryDecision& decision) {
  const auto follow = [&](auto& stream, bool clean) {
    std::optional<Trip>& now = stream.head.trip;
    if (!now) return;
    const bool violated_again = std::ranges::any_of(decision.verdicts, [&](const ClauseVerdict& verdict) {
      return stream.head.made(verdict) && verdict.verdict == Verdict::violated;
    });
    if (violated_again) return;
    if (stream.evidence() != now->evidence_seen) {
      now->clean_windows = clean ? now->clean_windows + 1 : 0;
      now->evidence_seen = stream.evidence();
    }
    const schema::Recovery& recovery = escalation.recovery;
    if (now->clean_windows >= recovery.clean_windows &&
        context.now_ms - now->at_ms >= recovery.min_dwell_ms) {
      decision.reasons.push_back(fmt::format("{} recovered: {} clean windows since it was violated.",
                                             stream.head.clause.address(), now->clean_windows));
      now.reset();
      return;
    }
    for (ClauseVerdict& verdict : decision.verdicts) {
      if (!stream.head.made(verdict)) continue;
      verdict.verdict = Verdict::violated;
      verdict.rule = schema::VerdictRule::recovering;
      verdict.details["clean_windows"] = now->clean_windows;
      verdict.details["clean_windows_needed"] = recovery.clean_windows;
      verdict.details["dwell_ms"] = static_cast<double>(context.now_ms - now->at_ms);
      verdict.details["dwell_needed_ms"] = static_cast<double>(recovery.min_dwell_ms);
      verdict.message = fmt::format("{} Recovering: {} of {} clean windows.", now->message,
                                    now->clean_windows, recovery.clean_windows);
    }
  };
  for (RateStream& stream : rates) follow(stream, stream.clean());
  for (LatencyStream& stream : latencies) follow(stream, stream.clean(levels));
}

/// A violation that freezes or steps back starts fresh processes, from which recovery is judged.
void CanaryState::Impl::trip(const CanaryContext& context, const CanaryDecision& decision) {
  const auto arm = [&](auto& stream) {
    const auto violated = std::ranges::find_if(decision.verdicts, [&](const ClauseVerdict& verdict) {
      return stream.head.made(verdict) && verdict.verdict == Verdict::violated;
    });
    const bool recovering =
        violated != decision.verdicts.end() && violated->details.contains("clean_windows");
    if (violated == decision.verdicts.end() || recovering) return;
    stream.rearm();
    stream.head.trip =
        Trip{context.now_ms, 0, stream.evidence(), decision.escalation.action, violated->message};
  };
  for (RateStream& stream : rates) arm(stream);
  for (LatencyStream& stream : latencies) arm(stream);
}

bool CanaryState::Impl::out_of_time(const CanaryContext& context, CanaryDecision& decision) const {
  const std::int64_t elapsed = context.now_ms - context.step_started_ms;
  const bool bake = context.step >= plan.steps.size();
  const std::int64_t least = bake ? plan.bake_ms : plan.soak_ms;
  if (plan.max_duration_ms && elapsed >= std::max(*plan.max_duration_ms, least)) {
    act(decision, CanaryAction::inconclusive,
        fmt::format("The step has lasted {} and max_duration is {}: what was seen does not decide.",
                    seconds(elapsed), seconds(*plan.max_duration_ms)));
    return true;
  }
  if (plan.max_exposure && keys_in_step >= *plan.max_exposure && !bake) {
    act(decision, CanaryAction::inconclusive,
        fmt::format("{} keys were served by the candidate in this step and max_exposure is {}: what was seen "
                    "does not "
                    "decide.",
                    count_text(keys_in_step), count_text(*plan.max_exposure)));
    return true;
  }
  return false;
}

void CanaryState::Impl::choose_progress(const CanaryContext& context, CanaryDecision& decision) const {
  const std::int64_t elapsed = context.now_ms - context.step_started_ms;
  const bool bake = context.step >= plan.steps.size();
  const std::int64_t least = bake ? plan.bake_ms : plan.soak_ms;
  const bool keys_seen = bake || keys_in_step >= plan.min_keys;
  if (!decision.advance_proven) {
    if (!out_of_time(context, decision)) {
      for (const ClauseVerdict& verdict : decision.verdicts) {
        if (verdict.verdict == Verdict::inconclusive)
          decision.reasons.push_back(verdict.clause + ": " + verdict.message);
      }
    }
    return;
  }
  if (elapsed < least || !keys_seen) {
    const std::string why =
        fmt::format("{} of {} {} and {} of {} keys.", seconds(elapsed), seconds(least),
                    bake ? "bake" : "soak", count_text(keys_in_step), count_text(bake ? 0 : plan.min_keys));
    if (keys_seen || !out_of_time(context, decision)) act(decision, CanaryAction::hold, why);
    return;
  }
  if (context.paused) return act(decision, CanaryAction::hold, "All is proven; the promotion is paused.");
  if (bake) return act(decision, CanaryAction::finish, "Every clause held through the bake.");
  if (plan.steps[context.step].approval && !context.approved) {
    return act(decision, CanaryAction::wait_approval, "All is proven at this step; its approval is awaited.");
  }
  decision.next_step = context.step + 1;
  decision.next_share_bp = share_of(decision.next_step);
  act(decision, CanaryAction::advance,
      decision.next_step == plan.steps.size()
          ? "All is proven at the last step: the bake begins."
          : fmt::format("All is proven at this step: on to {}.", percent(decision.next_share_bp / 10'000.0)));
}

void CanaryState::Impl::choose_action(const CanaryContext& context, bool tripped,
                                      CanaryDecision& decision) const {
  const EscalationDecision& order = decision.escalation;
  if (order.acted && order.action >= schema::Action::route_slice) {
    const bool blocks = order.action == schema::Action::block;
    return act(decision, blocks ? CanaryAction::block : CanaryAction::rollback, order.reason);
  }
  if (context.telemetry_age_ms >= plan.revert_after_ms) {
    return act(
        decision, CanaryAction::revert,
        fmt::format(
            "Telemetry is {} old and revert_after is {}: nothing is known of the users, so the candidate "
            "gets no traffic.",
            seconds(context.telemetry_age_ms), seconds(plan.revert_after_ms)));
  }
  if (decision.split_alarm) {
    return act(
        decision, CanaryAction::freeze,
        fmt::format(
            "Traffic is not split as configured (e-value {} over {} keys): the measurement is broken, not "
            "the candidate. Check the router and the keys.",
            figure(decision.split_e_value), count_text(split.keys())));
  }
  const auto last = static_cast<std::uint32_t>(plan.steps.size()) - 1;
  if (order.acted && order.action == schema::Action::step_back && !tripped &&
      std::min(context.step, last) > 0) {
    decision.next_step = std::min(context.step, last) - 1;
    decision.next_share_bp = share_of(decision.next_step);
    return act(decision, CanaryAction::step_back, order.reason);
  }
  const bool stale = context.telemetry_age_ms >= plan.freeze_after_ms;
  const bool frozen = order.acted && order.action != schema::Action::log;
  if (!stale && !frozen) return choose_progress(context, decision);
  if (out_of_time(context, decision)) return;
  act(decision, CanaryAction::freeze,
      stale ? fmt::format("Telemetry is {} old and freeze_after is {}.", seconds(context.telemetry_age_ms),
                          seconds(plan.freeze_after_ms))
            : order.reason);
}

CanaryDecision CanaryState::Impl::decide(const CanaryContext& context) {
  CanaryDecision decision;
  collect_verdicts(context, decision);
  judge_together(decision);
  follow_trips(context, decision);
  schema::hold_to_rules(decision.verdicts);
  decision.exposed_requests = exposed_requests;
  decision.exposed_keys = exposed_keys;
  decision.failed_keys_candidate = failed_keys_candidate;
  decision.failed_requests_candidate = failed_requests_candidate;
  decision.failed_requests_incumbent = failed_requests_incumbent;
  decision.keys_in_step = keys_in_step;
  decision.keys_full = uncounted_keys > 0;
  if (first_failure_us != 0) decision.first_failure_us = first_failure_us;
  decision.split_e_value = split.e_value();
  decision.split_alarm = decision.split_e_value >= 1 / levels.alpha_harm;
  decision.next_step = context.step;
  decision.next_share_bp = share_of(context.step);
  decision.advance_proven = std::ranges::all_of(decision.verdicts, [](const ClauseVerdict& verdict) {
    return verdict.verdict == Verdict::pass || verdict.severity == schema::Severity::soft;
  });
  if (decision.keys_full) {
    decision.reasons.push_back(
        fmt::format("{} requests of unseen keys were not counted: the limit of {} remembered keys "
                    "is reached.",
                    count_text(uncounted_keys), count_text(settings.max_keys)));
  }
  decision.escalation = escalate(escalation, schema::Stage::canary, decision.verdicts);
  const bool already_tripped = std::ranges::any_of(decision.verdicts, [&](const ClauseVerdict& verdict) {
    return verdict.clause == decision.escalation.clause && verdict.details.contains("clean_windows");
  });
  choose_action(context, already_tripped, decision);
  const bool eases = decision.escalation.action == schema::Action::freeze ||
                     decision.escalation.action == schema::Action::step_back;
  if (decision.escalation.acted && eases) trip(context, decision);
  const bool broken = decision.split_alarm || decision.action == CanaryAction::revert;
  decision.verdict = schema::combine(decision.verdicts);
  if (broken && decision.verdict != Verdict::violated) decision.verdict = Verdict::error;
  const bool undecided = decision.action != CanaryAction::finish && decision.verdict == Verdict::pass;
  if (undecided || decision.action == CanaryAction::inconclusive) decision.verdict = Verdict::inconclusive;
  return decision;
}

}  // namespace driftgate::stages
