#include "daemon/pipeline/machine/endings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/machine/routes.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline::machine {
namespace {

using nlohmann::json;
using store::PromotionState;
using store::StageRunState;
using store::Traffic;

json parsed_object(const std::string& text) {
  auto value = json::parse(text.empty() ? "{}" : text, nullptr, false);
  return value.is_object() ? value : json::object();
}

/// What a completed withdrawal must still know, kept in `outcome` while the route is being taken back.
json outcome_of(const Withdrawal& withdrawal) {
  auto outcome = parsed_object(withdrawal.outcome);
  outcome["hold"] = withdrawal.hold;
  outcome["reason"] = withdrawal.reason;
  outcome["by"] = withdrawal.actor.empty() ? kDaemonActor : withdrawal.actor;
  return outcome;
}

/// Which end wins when two are requested; a hold strengthens each.
int strength(PromotionState target, bool hold) {
  const int rank = target == PromotionState::rejected       ? 3
                   : target == PromotionState::errored      ? 2
                   : target == PromotionState::inconclusive ? 0
                                                            : 1;
  return 2 * rank + (hold ? 1 : 0);
}

/// Another end requested while the route is being taken back.
Change strengthen(const Facts& facts, const Withdrawal& withdrawal) {
  auto row = facts.live.row;
  auto outcome = parsed_object(row.outcome);
  const bool held = outcome.value("hold", false);
  const auto target = row.resume_state.value_or(PromotionState::errored);
  if (strength(withdrawal.target, withdrawal.hold) <= strength(target, held)) return {};
  outcome.update(outcome_of(withdrawal));
  outcome["hold"] = held || withdrawal.hold;
  row.outcome = schema::canonical_json(outcome);
  row.resume_state = withdrawal.target;
  row.reason = withdrawal.reason;
  return {.name = "strengthen withdrawal", .actor = withdrawal.actor, .row = std::move(row)};
}

/// What the data plane has of the candidate.
enum class Exposure { none, candidate, incumbent };

Exposure exposure_of(const Facts& facts) {
  const auto& row = facts.live.row;
  if (facts.model == nullptr || !store::holds_model(row.state)) return Exposure::none;
  const auto& desired = facts.model->desired;
  // Once the bake is over the desired route has the candidate as incumbent: the baseline must come back.
  if (row.state == PromotionState::finalizing && desired.incumbent.version == row.candidate)
    return Exposure::incumbent;
  const bool routed = desired.candidate && desired.candidate->version == row.candidate;
  return routed ? Exposure::candidate : Exposure::none;
}

}  // namespace

Change withdraw(const Facts& facts, const Withdrawal& withdrawal, Change change) {
  const bool alone = change.is_empty();
  if (alone && facts.live.row.state == PromotionState::rolling_back) return strengthen(facts, withdrawal);
  const auto exposure = exposure_of(facts);
  const bool routed = exposure != Exposure::none;
  change.name = "withdraw promotion";
  change.actor = withdrawal.actor;
  change.ends = true;
  if (alone) change.wanted_end = std::make_shared<const Withdrawal>(withdrawal);
  change.row = facts.live.row;
  change.row->outcome = schema::canonical_json(outcome_of(withdrawal));
  change.row->reason = withdrawal.reason;
  change.row->deadline_us.reset();
  change.row->state = routed ? PromotionState::rolling_back : withdrawal.target;
  change.row->resume_state = routed ? std::optional(withdrawal.target) : std::nullopt;
  if (!routed) change.row->ended_us = facts.now_us;
  if (!facts.live.run.key.stage.empty() && facts.live.run.state == StageRunState::running) {
    change.run = facts.live.run;
    change.run->state = withdrawal.run_state;
    change.run->ended_us = facts.now_us;
    if (!withdrawal.report.empty()) change.run->report = withdrawal.report;
  }
  if (!routed) {
    if (withdrawal.hold) change.hold = withdrawal.reason;
    change.effects.emplace_back(End{facts.live.row.id});
    return change;
  }
  auto safe = without_candidate(next_route(*facts.model));
  if (exposure == Exposure::incumbent) {
    safe.incumbent = arm(facts.live.baseline);
    safe.stage_key.clear();
  }
  set_route(change, std::move(safe), withdrawal.reason);
  return change;
}

Change complete_withdrawal(const Facts& facts) {
  const auto& live = facts.live;
  auto row = live.row;
  auto outcome = parsed_object(row.outcome);
  outcome["weight_zero_us"] = facts.now_us;
  const auto first_failure = live.progress.first_failure_us;
  if (first_failure > 0) {
    outcome["first_failure_to_weight_zero_ms"] = (facts.now_us - first_failure) / 1'000;
    row.reason += fmt::format(
        " {} requests of {} keys were exposed to it; its traffic was back at 0% {:.1f} s after its first "
        "failure.",
        live.progress.exposed_requests, live.progress.exposed_keys,
        static_cast<double>(facts.now_us - first_failure) / 1e6);
  }
  row.state = row.resume_state.value_or(PromotionState::errored);
  row.resume_state.reset();
  row.outcome = schema::canonical_json(outcome);
  if (row.traffic == Traffic::live) row.traffic = Traffic::reverted;
  const auto by = outcome.value("by", "");
  Change change{.name = "complete withdrawal", .actor = by == kDaemonActor ? std::string() : by};
  if (outcome.value("hold", false)) change.hold = row.reason;
  if (row.state == PromotionState::inconclusive) {
    row.deadline_us = facts.now_us + facts.settings.inconclusive_deadline_ms * 1'000;
  } else {
    row.ended_us = facts.now_us;
    change.effects.emplace_back(End{row.id});
  }
  change.row = std::move(row);
  return change;
}

Change complete_success(const Facts& facts, const std::vector<std::string>& waived) {
  Change change{.name = "complete promotion", .incumbent = facts.live.row.candidate, .row = facts.live.row};
  auto& row = *change.row;
  row.state = PromotionState::succeeded;
  row.traffic = Traffic::live;
  row.ended_us = facts.now_us;
  row.reason = waived.empty()
                   ? std::string("all four stages passed; the candidate serves 100%")
                   : fmt::format("all stages passed but for what was waived ({}); the candidate serves 100%",
                                 fmt::join(waived, ", "));
  row.outcome = schema::canonical_json(json{{"verdict", waived.empty() ? "pass" : "waived"},
                                            {"waived", waived},
                                            {"incumbent", row.candidate},
                                            {"previous", row.baseline}});
  change.effects.emplace_back(End{row.id});
  return change;
}

std::optional<Change> expire(const Facts& facts) {
  const auto& row = facts.live.row;
  if (!row.deadline_us || facts.now_us < *row.deadline_us) return std::nullopt;
  return withdraw(
      facts, {.target = PromotionState::expired,
              .reason = fmt::format("its deadline passed while it was {}", store::to_string(row.state))});
}

Change revert_success(const Facts& facts, const std::string& actor, const std::string& reason) {
  Change change{.name = "roll back",
                .actor = actor,
                .incumbent = facts.live.row.baseline,
                .hold = reason,
                .row = facts.live.row};
  change.row->traffic = Traffic::reverted;
  change.row->reason = reason;
  auto safe = without_candidate(next_route(*facts.model));
  safe.incumbent = arm(facts.live.baseline);
  safe.stage_key.clear();
  set_route(change, std::move(safe), reason);
  change.route->of_stage = false;
  return change;
}

}  // namespace driftgate::pipeline::machine
