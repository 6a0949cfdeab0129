#include "daemon/pipeline/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <ranges>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/sqlite/write_scope.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

constexpr std::uint64_t kSeedMask = (std::uint64_t{1} << 53) - 1;  // JSON carries it exactly

/// The version as stored; an empty one for an empty id.
schema::Result<store::VersionRow> read_version(store::Reader& reader, const std::string& id) {
  if (id.empty()) return store::VersionRow{};
  auto version = TRY(store::find_version(reader, id));
  return version.value_or(store::VersionRow{});
}

schema::Result<std::shared_ptr<const schema::Contract>> read_contract(store::Reader& reader,
                                                                      const std::string& digest) {
  auto stored = TRY(store::find_contract(reader, digest));
  if (!stored) return schema::fail(ErrorCode::corrupt, fmt::format("contract {} is not stored", digest));
  return parse_contract_row(*stored);
}

/// Whether the request itself was refused (its token has ended, its Idempotency-Key is another's), and not
/// the store unable to write.
bool is_refused(const store::WriteScope* scope, const schema::Error& error) {
  return error.code == ErrorCode::unauthenticated || (scope != nullptr && scope->refused());
}

}  // namespace

std::string Context::new_id(std::string_view prefix) const {
  return store::make_id(prefix, now(), world.random());
}

std::uint64_t Context::new_seed() const {
  std::uint64_t seed = 0;
  for (const auto byte : world.random()) seed = (seed << 8) ^ (seed >> 56) ^ byte;
  return seed & kSeedMask;
}

Live* Context::lookup(std::string_view id) {
  const auto found = promotions.find(id);
  return found == promotions.end() ? nullptr : found->second.get();
}

Live* Context::holder(std::string_view model) {
  for (auto& [id, live] : promotions) {
    if (live->row.model == model && store::holds_model(live->row.state)) return live.get();
  }
  return nullptr;
}

schema::Result<Live*> Context::open_promotion(const std::string& id) {
  if (auto* live = lookup(id)) return live;
  auto row = TRY(look_up(world.store, store::get_promotion, id));
  return schema::fail(ErrorCode::conflict,
                      fmt::format("promotion {} has ended: it is {}", id, store::to_string(row.state)));
}

ModelState* Context::model_of(const Live& live) {
  const auto found = models.find(live.row.model);
  return found == models.end() ? nullptr : &found->second;
}

Facts Context::facts(const Live& live) {
  return {live, model_of(live), now(), world.settings, &world.runner};
}

schema::Result<void> Context::load(Live& live, const store::PromotionRow& row) {
  return world.store.read([&](store::Reader& reader) -> schema::Result<void> {
    auto contract = TRY(read_contract(reader, row.contract));
    auto candidate = TRY(read_version(reader, row.candidate));
    auto baseline = TRY(read_version(reader, row.baseline));
    auto fallback = TRY(read_version(reader, row.fallback));
    if (candidate.id.empty())
      return schema::fail(ErrorCode::corrupt,
                          fmt::format("the candidate of promotion {} is not stored", row.id));
    live.row = row;
    live.contract = std::move(contract);
    live.candidate = std::move(candidate);
    live.baseline = std::move(baseline);
    live.fallback = std::move(fallback);
    live.canary.reset();
    live.outage_decided = false;
    live.run = {};
    live.progress = {};
    if (row.stage.empty()) return {};
    auto run = TRY(store::find_stage_run(reader, {row.id, row.stage, row.attempt}));
    if (!run)
      return schema::fail(ErrorCode::corrupt,
                          fmt::format("stage {} of promotion {} is not stored", row.stage, row.id));
    live.run = *run;
    live.progress = progress_from_json(live.run.progress);
    // The wall clock may have been set back since: silence must not be hidden by times in the future.
    live.progress.last_window_us = std::min(live.progress.last_window_us, now());
    live.run.step_started_us = std::min(live.run.step_started_us, now());
    return {};
  });
}

const schedule::Blackout* Context::blackout_of(const std::string& model) const {
  return schedule::find_blackout(blackouts, model, now() / 1'000'000);
}

Sources Context::sources() const {
  return {.runner = &world.runner, .now_us = now(), .contracts = &contracts_, .blackouts = blackouts};
}

/// `work`, and in the same transaction the messages to webhooks about its entries.
Work Context::with_messages(const Work& work) const {
  if (world.outbox.empty()) return work;
  return [this, &work](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    TRY(work(tx, entries));
    for (const auto& event : entries.events()) TRY(world.outbox.put(tx, event.json, now()));
    return {};
  };
}

/// Permission is checked in a command's first transaction alone: what the loop writes after it follows from
/// that one.
void Context::committed(const std::vector<Event>& events) {
  store::leave_write_scope();
  for (const auto& event : events) {
    figures.note(event);
    world.publish(event);
  }
}

schema::Result<void> Context::commit_rows(std::string_view what, const Work& work) {
  const auto events = TRY(world.committer.commit(what, with_messages(work)));
  committed(events);
  return {};
}

schema::Result<void> Context::commit_entry(std::string_view what, const schema::EntryDraft& entry) {
  return commit_rows(what, [&](store::Tx& tx, Entries& entries) { return add_entry(tx, entries, entry); });
}

void Context::adopt(Live& live, Change&& change) {
  if (change.verdicts) {
    const auto& report = change.verdicts->report;
    change.figures = figures_of(schema::to_string(report.stage), report.clauses, now());
  }
  if (change.figures) figures.decided(live.row.model, std::move(change.figures));
  for (auto& key : change.left_jobs) effects.emplace_back(CancelJob{std::move(key)});
  std::ranges::move(change.effects, std::back_inserter(effects));
  // Another version serves: the guard of the one before has ended, and a new one may be armed.
  if (change.incumbent) effects.emplace_back(LoadGuard{live.row.model});
  copy_back(std::move(change), live, model_of(live));
}

/// The change, and where a person asked for it the answer to that request, so that a repeated request finds
/// it.
schema::Result<void> Context::write_answered(store::Tx& tx, Entries& entries, const Facts& known,
                                             Change& change) const {
  TRY(write_change(tx, entries, known, change));
  if (!change.answers) return {};
  const auto& id = known.live.row.id;
  return note_made(tx, id, [&]() -> schema::Result<View> {
    const auto row = TRY(store::get_promotion(tx, id));
    return promotion_view(tx, row, sources());
  });
}

schema::Result<void> Context::commit_change(Live& live, Change change) {
  if (!change.is_empty()) {
    const auto known = facts(live);
    TRY(commit_rows(change.name, [&](store::Tx& tx, Entries& entries) {
      return write_answered(tx, entries, known, change);
    }));
  }
  adopt(live, std::move(change));
  return {};
}

schema::Result<void> Context::commit_together(std::string_view what, std::vector<OfPromotion> changes) {
  TRY(commit_rows(what, [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    for (auto& [live, change] : changes) {
      auto own = entries.following();
      if (live != nullptr) {
        TRY(write_answered(tx, own, facts(*live), change));
      } else {
        for (const auto& work : change.rows) TRY(work(tx, own));
      }
      entries.join(std::move(own));
    }
    return {};
  }));
  for (auto& [live, change] : changes)
    if (live != nullptr) adopt(*live, std::move(change));
  return {};
}

schema::Result<void> Context::commit_or_retry(Live& live, Change change) {
  if (change.ends) return commit_end(live, std::move(change));
  auto done = commit_change(live, std::move(change));
  if (!done) schedule_retry(live, done.error());
  return done;
}

schema::Result<void> Context::commit_end(Live& live, Change change) {
  const auto* const scope = store::current_write_scope();  // which a refusal may end
  const bool routed = change.route.has_value();
  auto wanted = change.wanted_end;
  auto done = routed ? commit_urgent(live, std::move(change)) : commit_change(live, std::move(change));
  if (done) {
    live.wanted_end.reset();
    live.retry_at_us = 0;
    live.failures = 0;
    return done;
  }
  if (is_refused(scope, done.error())) return done;  // nothing ends
  if (wanted) live.wanted_end = std::move(wanted);
  schedule_retry(live, done.error());
  return done;
}

schema::Result<void> Context::commit_urgent(Live& live, Change change) {
  auto* const scope = store::current_write_scope();
  // Permission is checked before too, since the route may be applied before the transaction refuses it.
  if (scope != nullptr) TRY(world.store.read([&](store::Reader& reader) { return scope->allow(reader); }));
  const auto known = facts(live);
  const auto& safe = change.route->route;
  bool ahead = false;
  const Work work = [&](store::Tx& tx, Entries& entries) {
    return write_answered(tx, entries, known, change);
  };
  auto future = std::async(std::launch::async, [&] {
    const store::EnterWriteScope entered(scope);
    return world.committer.commit(change.name, with_messages(work));
  });
  const auto patience = std::chrono::milliseconds(world.settings.commit_patience_ms);
  if (future.wait_for(patience) != std::future_status::ready) {
    ahead = true;
    auto applied = apply_and_read_back(safe);
    if (!applied)
      warn(fmt::format("0% traffic for the candidate of {} could not be applied before it was recorded: {}",
                       safe.model, applied.error().describe()));
  }
  auto done = future.get();
  if (!done) {
    if (!is_refused(scope, done.error())) return std::unexpected(keep_safe(known, safe, done.error()));
    if (ahead) take_back(known, *change.route);
    return std::unexpected(done.error());
  }
  committed(*done);
  adopt(live, std::move(change));
  return {};
}

/// Nothing is recorded, so the data plane keeps the safe route until a record succeeds. The error, with what
/// users have now: a router that cannot keep the route on a full disk has it in force all the same.
schema::Error Context::keep_safe(const Facts& facts, const route::ModelRoute& safe,
                                 const schema::Error& error) {
  const auto applied = world.driver.apply(safe);
  const bool held = is_held(safe).value_or(false);
  auto& model = *model_of(facts.live);
  model.kept_safe = true;
  model.agreed = false;
  model.given_revision = safe.revision;
  const auto what =
      held ? fmt::format("users of {} are served by {} alone now, but this is not recorded yet", safe.model,
                         safe.incumbent.url)
           : fmt::format(
                 "the route of {} without the candidate is neither recorded nor known to be in force "
                 "({})",
                 safe.model, applied ? "the data plane reports another one" : applied.error().describe());
  constexpr auto kGoesOn = "the daemon tries again by itself, and a restart before that may undo it";
  return schema::wrap(error, fmt::format("{}; {}", what, kGoesOn)).error();
}

/// The desired route comes back, as a newer revision than the safe one that went out.
void Context::take_back(const Facts& facts, const Change::Route& refused) {
  store::leave_write_scope();
  auto& model = *model_of(facts.live);
  auto back = model.desired;
  back.epoch = refused.route.epoch;
  back.revision = refused.route.revision + 1;
  const auto* const stage = refused.of_stage ? &facts.live.run.key : nullptr;
  const auto subject = subject_of(facts.live.row, facts.live.candidate.checkpoint, stage);
  auto done = commit_rows("take a route back", [&](store::Tx& tx, Entries& entries) {
    return put_route(tx, entries, subject, back, "the request for its replacement was refused", now());
  });
  if (done)
    model.desired = back;
  else
    warn(fmt::format(
        "the previous route of {} could not be restored, so its candidate stays at 0% traffic: {}",
        back.model, done.error().describe()));
  model.agreed = false;
  effects.emplace_back(ApplyRoute{back.model});
}

void Context::schedule_retry(Live& live, const schema::Error& error) {
  const auto wait = retry_wait_us(live.failures);
  live.failures += 1;
  live.retry_at_us = now() + wait;
  warn(fmt::format("promotion {}: {}; trying again in {} ms", live.row.id, error.describe(), wait / 1'000));
}

schema::Result<bool> Context::apply_and_read_back(const route::ModelRoute& route) {
  TRY(world.driver.apply(route));
  return is_held(route);
}

schema::Result<bool> Context::is_held(const route::ModelRoute& route) {
  const auto observed = TRY(world.driver.observe_model(route.model));
  return std::ranges::any_of(
      observed, [&](const route::ObservedRoute& held) { return !held.reverted && held.route == route; });
}

schema::Result<store::SpendingKey> Context::spending_key(const Live& live) const {
  return look_up(world.store, store::spending_key, live.candidate.checkpoint, live.candidate.kernel,
                 live.row.contract, live.run.key.stage);
}

schema::Result<std::uint32_t> Context::next_run(const Live& live) const {
  const auto key = TRY(spending_key(live));
  return look_up(world.store, store::next_run, key);
}

schema::Result<store::SpendingRow> Context::spend_alpha(const Live& live, const std::string& inputs_digest) {
  auto key = TRY(spending_key(live));
  store::SpendingRow row;
  TRY(commit_rows("spend alpha", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    auto found = TRY(store::spend(tx, key, inputs_digest, live.run.key, now()));
    row = found.row;
    return {};
  }));
  return row;
}

}  // namespace driftgate::pipeline
