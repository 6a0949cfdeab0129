#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "schema/verdict_rule.hpp"
#include "stages/canary/canary_impl.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

std::string seconds(std::int64_t ms) {
  return fmt::format("{:.4g} s", static_cast<double>(ms) / 1000);
}

void set_action(CanaryDecision& decision, CanaryAction action, std::string reason) {
  decision.action = action;
  decision.reasons.insert(decision.reasons.begin(), std::move(reason));
}

}  // namespace

bool CanaryState::Impl::out_of_time(const CanaryContext& context, CanaryDecision& decision) const {
  const std::int64_t elapsed = context.now_ms - context.step_started_ms;
  const bool bake = context.step >= plan.steps.size();
  const std::int64_t least = bake ? plan.bake_ms : plan.soak_ms;
  if (plan.max_duration_ms && elapsed >= std::max(*plan.max_duration_ms, least)) {
    set_action(decision, CanaryAction::inconclusive,
               fmt::format("The step has lasted {} and max_duration is {}: what was seen does not decide.",
                           seconds(elapsed), seconds(*plan.max_duration_ms)));
    return true;
  }
  return out_of_exposure(context, decision);
}

bool CanaryState::Impl::out_of_exposure(const CanaryContext& context, CanaryDecision& decision) const {
  const bool bake = context.step >= plan.steps.size();
  if (bake || !plan.max_exposure || keys_in_step < *plan.max_exposure) return false;
  set_action(
      decision, CanaryAction::inconclusive,
      fmt::format("{} keys were served by the candidate in this step, its max_exposure is {}, and the step "
                  "cannot be left yet.",
                  count_text(keys_in_step), count_text(*plan.max_exposure)));
  return true;
}

/// The bake is over. Slices that the fallback kernel serves were not shown to be right: a person decides.
void CanaryState::Impl::choose_finish(const CanaryContext& context, CanaryDecision& decision) const {
  const Routing now = routing();
  if (now.slices.empty())
    return set_action(decision, CanaryAction::finish, "Every clause held through the bake.");
  std::vector<std::string> names;
  for (const auto& where : now.slices) names.push_back(schema::slice_text(where));
  const std::string slices = fmt::format("{}", fmt::join(names, ", "));
  if (!context.approved) {
    return set_action(
        decision, CanaryAction::wait_approval,
        fmt::format("Every clause held through the bake on what the candidate serves; {} is on the "
                    "fallback kernel. An approval finishes with it there.",
                    slices));
  }
  set_action(
      decision, CanaryAction::finish,
      fmt::format("Every clause held through the bake on what the candidate serves; {} stays on the fallback "
                  "kernel, as approved.",
                  slices));
}

void CanaryState::Impl::choose_progress(const CanaryContext& context, CanaryDecision& decision) const {
  const std::int64_t elapsed = context.now_ms - context.step_started_ms;
  const bool bake = context.step >= plan.steps.size();
  const std::int64_t least = bake ? plan.bake_ms : plan.soak_ms;
  const bool keys_seen = bake || keys_in_step >= plan.min_keys;
  if (!decision.advance_proven) {
    if (out_of_time(context, decision)) return;
    for (const ClauseVerdict& verdict : decision.verdicts) {
      if (verdict.verdict == Verdict::inconclusive)
        decision.reasons.push_back(verdict.clause + on_slice(verdict.where) + ": " + verdict.message);
    }
    return;
  }
  if (elapsed < least || !keys_seen) {
    if (keys_seen ? out_of_exposure(context, decision) : out_of_time(context, decision)) return;
    return set_action(
        decision, CanaryAction::hold,
        fmt::format("{} of {} {} and {} of {} keys.", seconds(elapsed), seconds(least),
                    bake ? "bake" : "soak", count_text(keys_in_step), count_text(bake ? 0 : plan.min_keys)));
  }
  const bool waits = context.paused || (!bake && plan.steps[context.step].approval && !context.approved);
  if (waits && out_of_exposure(context, decision)) return;
  if (context.paused)
    return set_action(decision, CanaryAction::hold,
                      fmt::format("Every clause is proven; {}.", context.pause_reason));
  if (bake) return choose_finish(context, decision);
  if (waits) {
    return set_action(decision, CanaryAction::wait_approval,
                      "Every clause is proven at this step; it waits for an approval.");
  }
  decision.next_step = context.step + 1;
  decision.next_share_bp = share_of(decision.next_step);
  set_action(decision, CanaryAction::advance,
             decision.next_step == plan.steps.size()
                 ? "Every clause is proven at the last step: the bake begins."
                 : fmt::format("Every clause is proven at this step: the share rises to {}.",
                               percent(decision.next_share_bp / 10'000.0)));
}

/// Harm that ends the canary, users of whom nothing is known, or a measurement that is broken.
bool CanaryState::Impl::ends_or_breaks(const CanaryContext& context, const EscalationDecision& fresh,
                                       CanaryDecision& decision) const {
  if (fresh.acted && fresh.action >= schema::Action::rollback) {
    const bool blocks = fresh.action == schema::Action::block;
    set_action(decision, blocks ? CanaryAction::block : CanaryAction::rollback, fresh.reason);
    return true;
  }
  if (context.telemetry_age_ms >= plan.revert_after_ms) {
    set_action(
        decision, CanaryAction::revert,
        fmt::format(
            "Telemetry is {} old and revert_after is {}: nothing is known about the users' requests, so "
            "the candidate gets no traffic.",
            seconds(context.telemetry_age_ms), seconds(plan.revert_after_ms)));
    return true;
  }
  const bool away = context.engine_down && context.engine_down->open_ms > kBreakerPatienceMs;
  if (away && rates.empty()) {
    set_action(
        decision, CanaryAction::revert,
        fmt::format(
            "The candidate's engine has not answered for {} and the contract has no clause on error_rate "
            "that would say what follows, so the candidate gets no traffic.",
            seconds(context.engine_down->open_ms)));
    return true;
  }
  if (decision.split_alarm) {
    set_action(
        decision, CanaryAction::freeze,
        fmt::format(
            "Traffic is not split as configured (e-value {} over {} keys): the measurement is broken, not "
            "the candidate. Check the router and the keys.",
            figure(decision.split_e_value), count_text(split.keys())));
    return true;
  }
  return false;
}

/// What changes at the fallback kernel, the strongest first. A step back takes changes for slices along.
bool CanaryState::Impl::choose_routing(const EscalationDecision& fresh, const Routing& before,
                                       CanaryDecision& decision) const {
  const Routing now = routing();
  const bool routed = !std::ranges::includes(before.slices, now.slices);
  const auto reason = [&](schema::Action action) {
    const auto order = std::ranges::find(fresh.orders, action, &EscalationOrder::action);
    return order == fresh.orders.end() ? std::string() : order->reason;
  };
  if (now.all && !before.all) {
    set_action(decision, CanaryAction::fallback, reason(schema::Action::fallback));
  } else if (decision.action == CanaryAction::step_back) {
    if (routed) decision.reasons.push_back(reason(schema::Action::route_slice));
  } else if (routed) {
    set_action(decision, CanaryAction::route_slice, reason(schema::Action::route_slice));
  } else if (before.all && !now.all) {
    set_action(decision, CanaryAction::restore,
               "Its dwell at the fallback kernel is over: traffic comes back, on probation.");
  } else if (now.slices != before.slices) {
    set_action(
        decision, CanaryAction::restore_slice,
        "The dwell at the fallback kernel is over: a slice comes back to the candidate, on probation.");
  } else {
    return false;
  }
  return true;
}

void CanaryState::Impl::choose_action(const CanaryContext& context, const EscalationDecision& fresh,
                                      const Routing& before, CanaryDecision& decision) const {
  const auto stepping = std::ranges::find(fresh.orders, schema::Action::step_back, &EscalationOrder::action);
  const std::uint32_t here = std::min(context.step, static_cast<std::uint32_t>(plan.steps.size()) - 1);
  if (stepping != fresh.orders.end() && here > 0) {
    decision.next_step = here - 1;
    decision.next_share_bp = share_of(decision.next_step);
    set_action(decision, CanaryAction::step_back, stepping->reason);
  }
  if (choose_routing(fresh, before, decision) || decision.action == CanaryAction::step_back) return;
  const bool stale = context.telemetry_age_ms >= plan.freeze_after_ms;
  const bool ordered = fresh.acted && fresh.action >= schema::Action::freeze;
  if (!stale && !ordered && !holds_ramp()) return choose_progress(context, decision);
  if (out_of_time(context, decision)) return;
  set_action(decision, CanaryAction::freeze,
             stale ? fmt::format("Telemetry is {} old and freeze_after is {}.",
                                 seconds(context.telemetry_age_ms), seconds(plan.freeze_after_ms))
                   : decision.escalation.reason);
}

void CanaryState::Impl::fill_figures(const CanaryContext& context, CanaryDecision& decision) const {
  decision.exposed_requests = exposed_requests;
  decision.exposed_keys = exposed_keys;
  decision.failed_keys_candidate = failed_keys_candidate;
  decision.failed_requests_candidate = failed_requests_candidate;
  decision.failed_requests_incumbent = failed_requests_incumbent;
  decision.keys_in_step = keys_in_step;
  decision.keys_full = uncounted_keys > 0;
  if (first_failure_us != 0) decision.first_failure_us = first_failure_us;
  const bool sooner = context.engine_down && context.engine_down->since_us > 0 && first_failure_us == 0;
  if (sooner) decision.first_failure_us = context.engine_down->since_us;
  decision.split_e_value = split.e_value();
  decision.split_alarm = decision.split_e_value >= 1 / levels.alpha_harm;
  decision.next_step = context.step;
  decision.next_share_bp = share_of(context.step);
  if (decision.keys_full) {
    decision.reasons.push_back(
        fmt::format("{} requests of unseen keys were not counted: the limit of {} remembered keys "
                    "is reached.",
                    count_text(uncounted_keys), count_text(settings.max_keys)));
  }
  if (found_full) {
    decision.reasons.push_back(fmt::format(
        "{} slices found in traffic are watched, which is the limit; others count in all traffic only.",
        kMaxWatchedSlices));
  }
}

/// What is on the fallback kernel is listed as violated and is not what the candidate serves.
schema::Verdict CanaryState::Impl::stage_verdict(const CanaryDecision& decision) const {
  std::vector<ClauseVerdict> served;
  for (const ClauseVerdict& verdict : decision.verdicts) {
    if (!inside_fallback(verdict.where)) served.push_back(verdict);
  }
  const bool broken = decision.split_alarm || decision.action == CanaryAction::revert;
  const Verdict verdict = schema::combine(served);
  if (decision.action == CanaryAction::inconclusive) return Verdict::inconclusive;
  if (broken && verdict != Verdict::violated) return Verdict::error;
  const bool undecided = decision.action != CanaryAction::finish && verdict == Verdict::pass;
  return undecided ? Verdict::inconclusive : verdict;
}

CanaryDecision CanaryState::Impl::decide(const CanaryContext& context) {
  CanaryDecision decision;
  const Routing before = routing();
  std::vector<Judged> judged = collect(context, decision);
  judge_together(judged);
  judge_slices(judged);
  wait_for_slices(judged);
  follow_trips(context, judged, decision);
  set_aside_wide_slices(judged);
  explain_by_slices(judged);
  for (const Judged& item : judged) decision.verdicts.push_back(item.verdict);
  schema::enforce_rules(decision.verdicts);
  std::vector<ClauseVerdict> news;
  for (std::size_t i = 0; i < judged.size(); ++i) {
    if (judged[i].is_fresh()) news.push_back(decision.verdicts[i]);
  }
  fill_figures(context, decision);
  const EscalationDecision fresh = escalate(escalation, schema::Stage::canary, news);
  const bool over = ends_or_breaks(context, fresh, decision);
  if (!over) trip(context, judged, fresh);
  const Routing now = routing();
  decision.fallback_slices = now.slices;
  decision.all_to_fallback = now.all;
  decision.sample = sampling();
  decision.advance_proven = std::ranges::all_of(decision.verdicts, [&](const ClauseVerdict& verdict) {
    const bool watched =
        verdict.role == schema::SliceRole::monitored && verdict.verdict == Verdict::inconclusive;
    return verdict.verdict == Verdict::pass || verdict.severity == schema::Severity::soft || watched ||
           inside_fallback(verdict.where);
  });
  decision.escalation = fresh;
  if (!fresh.acted) {
    decision.escalation.orders = standing();
    if (!decision.escalation.orders.empty()) {
      const EscalationOrder& strongest = decision.escalation.orders.front();
      decision.escalation = {strongest.action,
                             true,
                             strongest.clause,
                             strongest.where,
                             strongest.rule,
                             strongest.reason,
                             std::move(decision.escalation.orders),
                             {}};
    }
  }
  give_notices(fresh, decision);
  if (!over) choose_action(context, fresh, before, decision);
  decision.verdict = stage_verdict(decision);
  return decision;
}

}  // namespace driftgate::stages
