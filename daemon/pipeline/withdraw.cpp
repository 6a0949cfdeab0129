#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/json.hpp"

namespace driftgate::pipeline {
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

/// Which end wins when two are asked for; a hold strengthens each.
int strength(PromotionState target, bool hold) {
  const int rank = target == PromotionState::rejected       ? 3
                   : target == PromotionState::errored      ? 2
                   : target == PromotionState::inconclusive ? 0
                                                            : 1;
  return 2 * rank + (hold ? 1 : 0);
}

}  // namespace

/// Another end asked for while the route is being taken back: it counts when it is the stronger one.
schema::Result<void> Core::strengthen(Live& live, const Withdrawal& withdrawal) {
  auto row = live.row;
  auto outcome = parsed_object(row.outcome);
  const bool held = outcome.value("hold", false);
  const bool hold = held || withdrawal.hold;
  const auto target = row.resume_state.value_or(PromotionState::errored);
  if (strength(withdrawal.target, withdrawal.hold) <= strength(target, held)) return {};
  outcome.update(outcome_of(withdrawal));
  outcome["hold"] = hold;
  row.outcome = schema::canonical_json(outcome);
  row.resume_state = withdrawal.target;
  row.reason = withdrawal.reason;
  auto done = commit("strengthen withdrawal", [&](store::Tx& tx, Entries& entries) {
    return record_state(tx, entries, live, row, live.run, withdrawal.actor);
  });
  if (done) live.row = row;
  return done;
}

/// Ends a promotion before success. With a candidate in the route: desired weight 0 is committed, applied and
/// read back first (state rolling_back); else the end is one transaction.
schema::Result<void> Core::withdraw(Live& live, Withdrawal withdrawal) {
  auto row = live.row;
  auto run = live.run;
  const auto model = models_.find(row.model);
  const bool known = model != models_.end() && store::holds_model(row.state);
  // Once the bake is over the desired route has the candidate as incumbent: the baseline must come back.
  const bool finalizing = known && row.state == PromotionState::finalizing &&
                          model->second.desired.incumbent.version == row.candidate;
  const bool routed = finalizing || (known && model->second.desired.candidate.has_value() &&
                                     model->second.desired.candidate->version == row.candidate);
  const auto outcome = outcome_of(withdrawal);
  row.outcome = schema::canonical_json(outcome);
  row.reason = withdrawal.reason;
  row.deadline_us.reset();
  row.state = routed ? PromotionState::rolling_back : withdrawal.target;
  row.resume_state = routed ? std::optional(withdrawal.target) : std::nullopt;
  if (!routed) row.ended_us = now();
  const bool open_run = !run.key.stage.empty() && run.state == StageRunState::running;
  if (open_run) {
    run.state = withdrawal.run_state;
    run.ended_us = now();
    if (!withdrawal.report.empty()) run.report = withdrawal.report;
  }
  auto safe = routed ? next_route(model->second) : route::ModelRoute{};
  if (finalizing) {
    safe.incumbent = arm(live.baseline);
    safe.stage_key.clear();
  }
  safe.candidate.reset();
  safe.candidate_bp = 0;
  safe.mirror_bp = 0;
  safe.slices.clear();
  safe.all_to_fallback = false;
  safe.fallback.reset();
  const Work work = [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (withdrawal.also) {
      auto more = withdrawal.also(tx, entries);
      if (!more) return more;
    }
    if (open_run) {
      auto updated = store::update_stage_run(tx, run);
      if (!updated) return updated;
    }
    if (routed) {
      auto put = put_route(tx, entries, subject_of(row, live.candidate.checkpoint, &run.key), safe,
                           withdrawal.reason);
      if (!put) return put;
    } else if (withdrawal.hold) {
      auto held = put_hold(tx, entries, live, withdrawal.actor, withdrawal.reason);
      if (!held) return held;
    }
    return record_state(tx, entries, live, row, run, withdrawal.actor);
  };
  bool ahead = false;
  auto done =
      routed ? commit_urgent("withdraw promotion", work, safe, ahead) : commit("withdraw promotion", work);
  if (!done && done.error().code == schema::ErrorCode::unauthenticated) {
    if (ahead) take_back(subject_of(row, live.candidate.checkpoint, &run.key), safe);
    return done;  // nothing is withdrawn
  }
  if (!done) {
    if (routed) model->second.kept_safe = true;
    if (!withdrawal.also) live.wanted_end = std::make_shared<const Withdrawal>(withdrawal);
    stumble(live, done.error());
    return done;
  }
  if (routed) model->second.kept_safe = false;
  live.wanted_end.reset();
  live.row = row;
  live.run = run;
  live.retry_at_us = 0;
  live.failures = 0;
  if (!routed) {
    end(live);
    return {};
  }
  model->second.desired = safe;
  model->second.agreed = false;
  model->second.retry_at_us = 0;
  const auto name = row.model;
  ensure_route(name);
  return {};
}

schema::Result<void> Core::put_hold(store::Tx& tx, Entries& entries, const Live& live,
                                    const std::string& actor, const std::string& reason) const {
  const auto by = actor.empty() ? std::string(kDaemonActor) : actor;
  auto held = store::set_hold(tx, live.row.model, reason, by, now(), live.row.id);
  if (!held) return held;
  auto seq = entries.add(tx, draft(live, schema::EvidenceKind::hold_set, actor, {{"reason", reason}}));
  if (!seq) return std::unexpected(seq.error());
  return store::set_model_evidence(tx, live.row.model, *seq);
}

/// Weight 0 was read back: the promotion ends as it was decided, and the hold is set.
void Core::complete_withdrawal(Live& live) {
  auto row = live.row;
  auto outcome = parsed_object(row.outcome);
  outcome["weight_zero_us"] = now();
  const auto first_failure = live.progress.first_failure_us;
  if (first_failure > 0) {
    outcome["first_failure_to_weight_zero_ms"] = (now() - first_failure) / 1'000;
    row.reason += fmt::format(
        " {} requests of {} keys were exposed to it; weight 0 was read back {:.1f} s after its first "
        "failure.",
        live.progress.exposed_requests, live.progress.exposed_keys,
        static_cast<double>(now() - first_failure) / 1e6);
  }
  row.state = row.resume_state.value_or(PromotionState::errored);
  row.resume_state.reset();
  const bool may_go_on = row.state == PromotionState::inconclusive;
  if (may_go_on) {
    row.deadline_us = now() + world_.settings.inconclusive_deadline_ms * 1'000;
  } else {
    row.ended_us = now();
  }
  row.outcome = schema::canonical_json(outcome);
  if (row.traffic == Traffic::live) row.traffic = Traffic::reverted;
  const bool hold = outcome.value("hold", false);
  const auto by = outcome.value("by", "");
  const auto actor = by == kDaemonActor ? std::string() : by;
  auto done = commit("complete withdrawal", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    if (hold) {
      auto held = put_hold(tx, entries, live, actor, row.reason);
      if (!held) return held;
    }
    return record_state(tx, entries, live, row, live.run, actor);
  });
  if (!done) return stumble(live, done.error());
  live.row = row;
  if (!may_go_on) end(live);
}

/// The route with the candidate as incumbent was read back.
void Core::complete_success(Live& live) {
  auto row = live.row;
  const auto& model = models_.at(row.model);
  row.state = PromotionState::succeeded;
  row.traffic = Traffic::live;
  row.ended_us = now();
  auto waived = waived_clauses(live);
  if (!waived) return stumble(live, waived.error());
  row.reason = waived->empty()
                   ? std::string("all four stages passed; the candidate serves 100%")
                   : fmt::format("all stages passed but for what was waived ({}); the candidate serves 100%",
                                 fmt::join(*waived, ", "));
  const json outcome{{"verdict", waived->empty() ? "pass" : "waived"},
                     {"waived", *waived},
                     {"incumbent", row.candidate},
                     {"previous", row.baseline}};
  row.outcome = schema::canonical_json(outcome);
  auto done = commit("complete promotion", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto set = store::set_incumbent(tx, row.model, model.epoch, row.candidate, now());
    if (!set) return set;
    auto recorded = record_state(tx, entries, live, row, live.run, {});
    if (!recorded) return recorded;
    return store::set_model_evidence(tx, row.model, entries.last());
  });
  if (!done) return stumble(live, done.error());
  live.row = row;
  end(live);
}

/// A safe route went out ahead of its record, and the record was refused since the token of who asked for it ended
/// in between: the desired route comes back, as a newer revision.
void Core::take_back(const schema::EvidenceSubject& subject, const route::ModelRoute& safe) {
  store::leave_write_scope();
  auto& model = models_.at(safe.model);
  auto back = model.desired;
  back.epoch = safe.epoch;
  back.revision = safe.revision + 1;
  auto done = commit("take a route back", [&](store::Tx& tx, Entries& entries) {
    return put_route(tx, entries, subject, back, "what replaced it was asked for with a token that had ended");
  });
  if (done)
    model.desired = back;
  else
    warn(fmt::format("the route of {} stays safe: {}", safe.model, done.error().describe()));
  model.agreed = false;
  ensure_route(safe.model);
}

/// Rollback after success: the version before it serves again, and automation is held.
schema::Result<void> Core::revert_success(const std::string& actor, store::PromotionRow row,
                                          const std::string& reason) {
  const auto found = models_.find(row.model);
  if (found == models_.end())
    return schema::fail(schema::ErrorCode::not_found, fmt::format("there is no model {}", row.model));
  Live live;
  auto loaded = load(live, row);
  if (!loaded) return loaded;
  auto model = world_.store.read([&](store::Reader& reader) { return store::get_model(reader, row.model); });
  if (!model) return std::unexpected(model.error());
  if (model->incumbent != row.candidate) {
    return schema::fail(
        schema::ErrorCode::conflict,
        fmt::format("promotion {} does not serve {} any more; roll back the newest one", row.id, row.model));
  }
  if (auto* other = holder(row.model)) {
    // The hold commits with the other's end: a queued promotion must not start on the bad baseline.
    const Withdrawal end{.target = PromotionState::aborted,
                         .actor = actor,
                         .reason = fmt::format("its baseline {} is rolled back", row.id),
                         .hold = true};
    const bool ending = other->row.state == PromotionState::rolling_back;
    auto ended = ending ? strengthen(*other, end) : withdraw(*other, end);
    if (!ended) return ended;
  }
  auto safe = next_route(found->second);
  safe.incumbent = arm(live.baseline);
  safe.candidate.reset();
  safe.candidate_bp = 0;
  safe.mirror_bp = 0;
  safe.stage_key.clear();
  safe.slices.clear();
  safe.all_to_fallback = false;
  safe.fallback.reset();
  row.traffic = Traffic::reverted;
  row.reason = reason;
  const Work work = [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto put = put_route(tx, entries, subject_of(row, live.candidate.checkpoint, nullptr), safe, reason);
    if (!put) return put;
    auto set = store::set_incumbent(tx, row.model, found->second.epoch, row.baseline, now());
    if (!set) return set;
    auto held = put_hold(tx, entries, live, actor, reason);
    if (!held) return held;
    return record_state(tx, entries, live, row, live.run, actor);
  };
  bool ahead = false;
  auto done = commit_urgent("roll back", work, safe, ahead);
  const bool refused = !done && done.error().code == schema::ErrorCode::unauthenticated;
  if (refused && ahead) take_back(subject_of(row, live.candidate.checkpoint, nullptr), safe);
  if (!done) return done;
  found->second.desired = safe;
  found->second.agreed = false;
  found->second.retry_at_us = 0;
  ensure_route(row.model);
  if (!found->second.agreed) {
    return schema::fail(
        schema::ErrorCode::unavailable,
        "the rollback is recorded, but the data plane could not be read back yet; it is being retried");
  }
  return {};
}

}  // namespace driftgate::pipeline
