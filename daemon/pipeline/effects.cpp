#include "daemon/pipeline/coordinator.hpp"
#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/machine/lifecycle.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/requests/promotions.hpp"
#include "daemon/pipeline/routes.hpp"
#include "daemon/pipeline/stages/canary_stage.hpp"

// How effects are carried out. Each looks its promotion up by id: it may have ended since the effect was
// queued.
namespace driftgate::pipeline {
namespace {

using schema::Stage;
using store::PromotionState;

template <typename... Fs>
struct Visitor : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Visitor(Fs...) -> Visitor<Fs...>;  // for clang 16, which reads these sources in scripts/tidy

/// Its stage may act: the promotion is loaded and nothing waits for a retry.
bool is_running(const Live& live) {
  return live.row.state == PromotionState::running && live.retry_at_us == 0;
}

}  // namespace

void Coordinator::settle() {
  while (!context_.effects.empty()) {
    const auto effect = std::move(context_.effects.front());
    context_.effects.pop_front();
    carry_out(effect);
  }
}

void Coordinator::carry_out(const Effect& effect) {
  std::visit(
      Visitor{[&](const ApplyRoute& it) { apply_route(it.model); },
              [&](const EnterStage& it) { enter_stage(it.promotion); },
              [&](const StartJob& it) { start_job(it); },
              [&](const CancelJob& it) { context_.world.runner.cancel(it.key); },
              [&](const ForgetJobs& it) { context_.world.runner.forget(it.prefix); },
              [&](const DropSpool& it) { (void)context_.world.driver.drop_spool(it.stage_key); },
              [&](const Evaluate& it) { evaluate(it); }, [&](const UsePrepared& it) { use_prepared(it); },
              [&](const UseEvaluation& it) { use_evaluation(it); },
              [&](const DecideCanary& it) { decide_canary(it.promotion); },
              [&](const End& it) { forget_ended(it.promotion); },
              [&](const StartNext& it) { start_next(context_, it.model); },
              [&](const LoadGuard& it) { load_guard(context_, it.model); },
              [&](const UseGuardLook& it) { use_guard_look(context_, it); },
              [&](const UseRescored& it) { use_rescored(context_, it); },
              [&](const ActOnGuard& it) { act_on_guard(context_, it.model); },
              [&](const UseGuardFacts& it) { use_guard_facts(context_, it); }},
      effect);
}

void Coordinator::apply_route(const std::string& model) {
  if (!ensure_route_held(context_, model)) return;
  auto* const live = context_.holder(model);
  if (live != nullptr && live->retry_at_us == 0) route_agreed(*live);
}

/// The desired route was read back and recorded: what waited for it continues.
void Coordinator::route_agreed(Live& live) {
  if (live.row.state == PromotionState::rolling_back) {
    (void)context_.commit_or_retry(live, machine::complete_withdrawal(context_.facts(live)));
  } else if (live.row.state == PromotionState::finalizing) {
    const auto waived = people::waived_clauses(context_, live);
    if (!waived) return context_.schedule_retry(live, waived.error());
    auto change = machine::complete_success(context_.facts(live), *waived);
    arm_guard(context_, live, change);
    (void)context_.commit_or_retry(live, std::move(change));
  } else if (live.progress.phase == "applying" || live.progress.phase == "stopping") {
    route_of_stage_applied(live);
  }
}

void Coordinator::route_of_stage_applied(Live& live) {
  if (!stage_is_open(live.row.state)) return;
  if (live.run.key.stage == schema::to_string(Stage::canary))
    return commit_decided(live, canary_route_applied(context_, live));
  (void)context_.commit_or_retry(live, machine::shadow_route_applied(context_.facts(live)));
}

/// From what is stored: at a start, after a retry, after a change that begins a stage or resumes one.
void Coordinator::enter_stage(const std::string& promotion) {
  auto* const live = context_.lookup(promotion);
  if (live == nullptr || live->retry_at_us != 0) return;
  const auto state = live->row.state;
  if (state == PromotionState::rolling_back || state == PromotionState::finalizing) {
    context_.effects.emplace_back(ApplyRoute{live->row.model});
    return;
  }
  const auto stage = schema::stage_from_name(live->run.key.stage);
  const bool open = state == PromotionState::running || state == PromotionState::awaiting_approval;
  if (!open || !stage || live->run.state != store::StageRunState::running) return;
  if (*stage == Stage::canary) {
    take_step(*live, canary_step(context_, *live));
  } else if (*stage == Stage::shadow_runtime) {
    take_step(*live, shadow_step(context_, *live));
  } else {
    take_step(*live, fixed_step(context_, *live));
  }
}

void Coordinator::take_step(Live& live, StageStep step) {
  std::visit(Visitor{[](const Wait&) {}, [&](const Retry& it) { context_.schedule_retry(live, it.error); },
                     [&](const AttemptFailed& it) { fail_attempt(live, it.error, it.what); },
                     [&](Change& it) { (void)context_.commit_or_retry(live, std::move(it)); },
                     [&](StageConclusion& it) { conclude(live, std::move(it)); }},
             step);
}

void Coordinator::conclude(Live& live, StageConclusion conclusion) {
  auto change = machine::conclude_stage(context_.facts(live), std::move(conclusion), context_.new_id("bl"));
  (void)context_.commit_or_retry(live, std::move(change));
}

void Coordinator::fail_attempt(Live& live, const schema::Error& error, const std::string& what) {
  const auto attempt = live.run.key.attempt;
  auto change = machine::fail_attempt(context_.facts(live), error, what);
  const bool again = change.next.has_value();
  if (context_.commit_or_retry(live, std::move(change)) && again)
    live.retry_at_us = context_.now() + machine::retry_delay_us(context_.world.settings, attempt);
}

void Coordinator::commit_decided(Live& live, schema::Result<Change> change) {
  if (!change) return context_.schedule_retry(live, change.error());
  (void)context_.commit_or_retry(live, std::move(*change));
}

void Coordinator::start_job(const StartJob& job) {
  auto* const live = context_.lookup(job.stage.promotion);
  if (live == nullptr || live->run.key != job.stage) return;
  const auto started = context_.world.runner.start(job.spec);
  if (started) return;
  if (job.what.empty()) return context_.schedule_retry(*live, started.error());
  if (is_running(*live)) fail_attempt(*live, started.error(), job.what);
}

void Coordinator::evaluate(const Evaluate& wanted) {
  auto* const live = context_.lookup(wanted.stage.promotion);
  if (live == nullptr) return;
  live->evaluating = true;
  auto tests = std::make_shared<schema::Result<Tests>>();
  context_.world.offload(
      [tests, prepare = wanted.prepare] { *tests = prepare(); },
      [this, tests, stage = wanted.stage, what = wanted.what, inputs = wanted.inputs_digest] {
        context_.effects.emplace_back(UsePrepared{stage, what, inputs, tests});
      });
}

void Coordinator::use_prepared(const UsePrepared& done) {
  auto* const live = context_.lookup(done.stage.promotion);
  if (live == nullptr) return;
  live->evaluating = false;
  if (live->run.key != done.stage || live->row.state != PromotionState::running) return;
  if (!*done.tests) return fail_attempt(*live, done.tests->error(), done.what);
  const auto spent = context_.spend_alpha(*live, done.inputs_digest);
  if (!spent) return context_.schedule_retry(*live, spent.error());
  live->evaluating = true;
  auto conclusion = std::make_shared<StageConclusion>();
  context_.world.offload([conclusion, tests = done.tests,
                          k = static_cast<std::uint32_t>(spent->k)] { *conclusion = (**tests)(k); },
                         [this, conclusion, stage = done.stage] {
                           context_.effects.emplace_back(UseEvaluation{stage, conclusion});
                         });
}

void Coordinator::use_evaluation(const UseEvaluation& done) {
  auto* const live = context_.lookup(done.stage.promotion);
  if (live == nullptr) return;
  live->evaluating = false;
  if (live->run.key != done.stage || live->row.state != PromotionState::running) return;
  conclude(*live, *done.conclusion);
}

void Coordinator::decide_canary(const std::string& promotion) {
  auto* const live = context_.lookup(promotion);
  if (live != nullptr && live->canary && is_running(*live))
    commit_decided(*live, canary_decision(context_, *live));
}

/// Jobs, folders and spools go, the next in the queue starts.
void Coordinator::forget_ended(const std::string& promotion) {
  const auto* const live = context_.lookup(promotion);
  if (live == nullptr) return;
  const auto model = live->row.model;
  context_.world.runner.forget(promotion + "/");
  const bool has_spool = live->run.key.stage == schema::to_string(Stage::shadow_runtime) ||
                         live->progress.samples > 0 || !live->progress.sample.empty();
  if (has_spool) (void)context_.world.driver.drop_spool(live->run.key.text());
  context_.promotions.erase(promotion);
  context_.effects.emplace_back(StartNext{model});
}

}  // namespace driftgate::pipeline
