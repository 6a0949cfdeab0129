#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/engines/golden.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/machine/guard_ladder.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/engines.hpp"

// What is done about the alarm of a guard.
namespace driftgate::pipeline {
namespace {

using machine::GuardAction;
using schema::EntryValue;
using schema::EvidenceKind;

/// Golden prompts that the version before is asked. Most of the answers must be those of its promotion.
constexpr std::size_t kAsked = 8;

/// A version that could serve instead, with what its engine was when it was promoted.
struct Previous {
  store::VersionRow version;
  jobs::GoldenEngine engine;
  std::string refused;                  ///< why it cannot be used, found without asking it
  std::optional<GuardProbes> golden{};  ///< of its own guard, where it had one with answers
};

/// What is looked at beside the loop.
struct Questions {
  std::optional<Previous> previous;
  std::string fallback_url;  ///< "" = there is none
  CapacityFacts fallback;
};

schema::Result<std::optional<Previous>> read_previous(store::Reader& reader, const std::string& version,
                                                      const std::string& model) {
  if (version.empty()) return std::nullopt;
  auto row = TRY(store::find_version(reader, version));
  if (!row) return std::nullopt;
  Previous previous{.version = std::move(*row), .engine = {}, .refused = {}};
  const auto engine = TRY(store::find_engine(reader, previous.version.engine));
  const bool same = engine && engine->base_url == previous.version.base_url &&
                    engine->kernel == previous.version.kernel &&
                    engine->checkpoint == previous.version.checkpoint;
  if (!same) {
    previous.refused = fmt::format("engine {} of the version before is not registered as it was then",
                                   previous.version.engine);
    return previous;
  }
  const auto abilities = TRY(jobs::abilities_from_json(engine->abilities));
  previous.engine = jobs::golden_engine(previous.version.base_url, model, abilities);
  const auto guard = TRY(store::find_guard_of_version(reader, version));
  if (!guard) return previous;
  auto probes = guard_probes_from_json(guard->probes);
  if (previous.engine.by == jobs::LogprobsBy::none) return previous;
  if (probes && probes->watch && probes->watch->armed()) previous.golden = std::move(*probes);
  return previous;
}

schema::Result<Questions> questions_of(Context& context, const Live& served) {
  return context.world.store.read([&](store::Reader& reader) -> schema::Result<Questions> {
    auto previous = TRY(read_previous(reader, served.row.baseline, served.row.model));
    Questions questions{.previous = std::move(previous),
                        .fallback_url = served.fallback.base_url,
                        .fallback = {.engine = served.fallback.engine}};
    if (served.fallback.engine.empty()) return questions;
    const auto engine = TRY(store::find_engine(reader, served.fallback.engine));
    if (engine) questions.fallback.max_requests_per_second = engine->max_requests_per_second;
    return questions;
  });
}

/// Asks some golden prompts whose answers are known from the version's own guard. Returns why it does not
/// pass, or ""; `seen` says what was found.
std::string ask_previous(const World& world, const Previous& previous, std::string& seen) {
  const GuardProbes& golden = *previous.golden;
  std::size_t answered = 0, within = 0;
  for (std::size_t i = 0; i < std::min(kAsked, golden.prompts.size()); ++i) {
    const auto answer = world.probe(previous.engine, golden.prompts[i]);
    if (!answer) return answer.error().describe();
    ++answered;
    within += golden.watch->is_within_floor(i, answer->answer) ? 1 : 0;
  }
  seen = fmt::format("{} of {} answers to golden prompts are those of its promotion", within, answered);
  return answered > 0 && 2 * within > answered ? std::string() : seen;
}

/// Runs beside the loop: every question here may take seconds.
machine::GuardFacts ask(const World& world, Questions questions) {
  machine::GuardFacts facts;
  if (questions.previous) {
    const Previous& previous = *questions.previous;
    facts.previous = previous.version.engine;
    facts.previous_refused = previous.refused;
    if (facts.previous_refused.empty()) {
      if (auto healthy = world.health(previous.version.base_url); !healthy)
        facts.previous_refused =
            fmt::format("engine {} is not healthy: {}", facts.previous, healthy.error().describe());
    }
    std::string seen = "no golden prompts of it are known";
    if (facts.previous_refused.empty() && previous.golden) {
      const auto fails = ask_previous(world, previous, seen);
      if (!fails.empty()) facts.previous_refused = fmt::format("engine {}: {}", facts.previous, fails);
    }
    facts.previous_text = fmt::format("engine {} is healthy; {}", facts.previous, seen);
  }
  if (!questions.fallback_url.empty()) {
    if (auto healthy = world.health(questions.fallback_url); !healthy)
      questions.fallback.unhealthy = healthy.error();
  }
  facts.fallback = judge_capacity(questions.fallback);
  return facts;
}

void retry_later(Context& context, LiveGuard& guard, const schema::Error& error) {
  const auto wait = retry_wait_us(guard.failures);
  guard.failures += 1;
  guard.acting = false;
  guard.retry_at_us = context.now() + wait;
  context.warn(fmt::format("what the guard of {} orders is not done yet: {}; trying again in {} ms",
                           guard.row.model, error.describe(), wait / 1'000));
}

schema::EntryDraft decided_entry(const Context& context, const LiveGuard& guard, const GuardOrder& order,
                                 const machine::GuardChoice& choice, const std::string& reason) {
  EntryValue::Array tried;
  for (const auto& one : choice.tried) {
    tried.emplace_back(EntryValue::Object{
        {"action", machine::to_string(one.action)}, {"possible", one.possible}, {"reason", one.reason}});
  }
  return guard_entry(context, guard, EvidenceKind::guard_decided,
                     {{"action", machine::to_string(choice.action)},
                      {"ordered", schema::to_string(order.action)},
                      {"reason", reason},
                      {"tried", std::move(tried)}});
}

/// The guard's row once the order is carried out.
GuardOrders carried_out(const LiveGuard& guard, const GuardOrder& order, GuardAction action) {
  GuardOrders orders = guard.orders;
  orders.pending.reset();
  if (action == GuardAction::fallback) orders.all_away = true;
  if (action == GuardAction::route_slice) {
    for (const auto& where : order.slices) {
      if (std::ranges::find(orders.away, where) == orders.away.end()) orders.away.push_back(where);
    }
  }
  return orders;
}

Work update_row(store::GuardRow row) {
  return [row = std::move(row)](store::Tx& tx, Entries&) { return store::update_guard(tx, row); };
}

/// Commits what was chosen. A rollback ends the guard in the same transaction.
schema::Result<void> carry_out(Context& context, LiveGuard& guard, Live& served,
                               const machine::GuardChoice& choice) {
  const GuardOrder order = *guard.orders.pending;
  const std::string reason = machine::reason_of(order, choice);
  const auto entry = decided_entry(context, guard, order, choice, reason);
  const GuardOrders orders = carried_out(guard, order, choice.action);
  auto row = guard.row;
  row.orders = to_json(orders);
  if (choice.action != GuardAction::hold) TRY(people::end_successor(context, served, kDaemonActor));
  const auto facts = context.facts(served);
  if (choice.action == GuardAction::rollback) {
    auto change = machine::revert_success(facts, {}, reason);
    change.rows.push_back(update_row(row));
    change.entries.push_back(entry);
    if (order.action == schema::Action::block) {
      const stages::EscalationDecision decision{order.action, true,         order.clause, {},
                                                order.rule,   order.reason, {},           {}};
      change.block = {context.new_id("bl"), decision};
    }
    return context.commit_urgent(served, std::move(change));
  }
  auto change = machine::send_away(facts, order, choice.action, reason);
  change.rows.push_back(update_row(row));
  change.entries.push_back(entry);
  TRY(context.commit_change(served, std::move(change)));
  guard.row = std::move(row);
  guard.orders = orders;
  return {};
}

/// The promotion that armed the guard; an error when its version does not serve any more.
schema::Result<Live> served_by(Context& context, const LiveGuard& guard) {
  auto served = TRY(people::serving_promotion(context, guard.row.promotion));
  if (!served) {
    return schema::fail(schema::ErrorCode::conflict,
                        fmt::format("promotion {} was rolled back already", guard.row.promotion));
  }
  return std::move(*served);
}

}  // namespace

void act_on_guard(Context& context, const std::string& model) {
  const auto found = context.guards.find(model);
  if (found == context.guards.end()) return;
  LiveGuard& guard = *found->second;
  if (!guard.orders.pending || guard.acting || context.now() < guard.retry_at_us) return;
  if (context.rollbacks.contains(model)) return;  // a person's, which ends the guard
  const auto served = served_by(context, guard);
  if (!served) return retry_later(context, guard, served.error());
  auto questions = questions_of(context, *served);
  if (!questions) return retry_later(context, guard, questions.error());
  questions->fallback.requests_per_second = context.models.at(model).rate.requests_per_second();
  guard.acting = true;
  auto facts = std::make_shared<machine::GuardFacts>();
  context.world.look(
      [facts, &world = context.world, asked = std::move(*questions)] { *facts = ask(world, asked); },
      [&context, facts, model, id = guard.row.id] {
        context.effects.emplace_back(UseGuardFacts{model, id, facts});
      });
}

void use_guard_facts(Context& context, const UseGuardFacts& found) {
  const auto at = context.guards.find(found.model);
  if (at == context.guards.end() || at->second->row.id != found.guard) return;
  LiveGuard& guard = *at->second;
  guard.acting = false;
  if (!guard.orders.pending) return;
  auto served = served_by(context, guard);
  if (!served) return retry_later(context, guard, served.error());
  const auto choice = machine::choose(*guard.orders.pending, *found.facts);
  const auto done = carry_out(context, guard, *served, choice);
  if (done) {
    guard.failures = 0;
    return;
  }
  retry_later(context, guard, done.error());
}

void give_back(Context& context, const std::string& model, const std::string& actor,
               const std::string& reason) {
  const auto found = context.guards.find(model);
  if (found == context.guards.end() || !found->second->orders.sent_away()) return;
  LiveGuard& guard = *found->second;
  auto served = served_by(context, guard);
  if (!served) return context.warn(served.error().describe());
  GuardOrders orders;
  auto tests = std::move(guard.tests);
  tests.restart(context.now());
  auto rescoring = guard.rescoring;
  if (rescoring.watch) rescoring.watch->restart(context.now());
  rescoring.spool_day = 0;  // what was kept before is not read any more
  auto row = guard.row;
  row.orders = to_json(orders);
  row.traffic = tests.serialise();
  row.rescoring = to_json(rescoring);
  auto change = machine::take_back_from_fallback(context.facts(*served), guard.orders, actor, reason);
  change.rows.push_back(update_row(row));
  change.entries.push_back(guard_entry(
      context, guard, EvidenceKind::guard_decided,
      {{"action", "give_back"}, {"ordered", ""}, {"reason", reason}, {"tried", EntryValue::Array{}}}));
  const auto done = context.commit_change(*served, std::move(change));
  if (!done) {
    context.warn(fmt::format("what the guard of {} sent to the fallback kernel stays there: {}", model,
                             done.error().describe()));
  }
  context.effects.emplace_back(LoadGuard{model});
}

}  // namespace driftgate::pipeline
