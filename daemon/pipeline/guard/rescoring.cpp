#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/machine/routes.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "schema/utf8.hpp"

// What a guard makes of live answers: the data plane keeps those of a share of sticky keys, and the engines
// of both kernels score them, one after the other.
namespace driftgate::pipeline {
namespace {

using schema::EntryValue;

constexpr std::int64_t kHourUs = 3'600'000'000;
constexpr std::int64_t kDayUs = 24 * kHourUs;
constexpr std::uint64_t kHours = 24;
constexpr std::int64_t kNextUs = 1'000'000;          ///< between two answers
constexpr std::int64_t kIdleUs = 10'000'000;         ///< after a look that found none
constexpr std::int64_t kAwayUs = 60'000'000;         ///< after the first look without an answer of an engine
constexpr std::int64_t kMaxAwayUs = 960'000'000;     ///< doubles up to this
constexpr std::int64_t kFindEnginesUs = 60'000'000;  ///< between two looks at what is registered
constexpr std::int64_t kRefusedUs =
    kHourUs;                             ///< after the data plane did not take a route that keeps answers
constexpr std::uint32_t kRefused = 3;    ///< times that it did not
constexpr std::uint64_t kMostTries = 3;  ///< with one answer
constexpr std::uint64_t kMostKeptBytes = std::uint64_t{16} << 20;  ///< then another spool file is begun
constexpr std::size_t kMostWhyBytes = 300;
constexpr const char* kWhat = "rescoring";

std::int64_t day_of(std::int64_t now_us) {
  return now_us / kDayUs;
}

const schema::RescoringPlan& plan_of(const LiveGuard& guard) {
  return *guard.contract->guard->rescoring;
}

std::uint64_t tokens_today(const GuardRescoring& state, std::int64_t now_us) {
  return state.day == day_of(now_us) ? state.tokens : 0;
}

/// A day's budget is released hour by hour, so that no part of the day goes unwatched.
bool is_paid(const LiveGuard& guard, std::int64_t now_us) {
  const auto hour = static_cast<std::uint64_t>(now_us % kDayUs / kHourUs);
  return tokens_today(guard.rescoring, now_us) < plan_of(guard).budget_tokens / kHours * (hour + 1) + 1;
}

/// The engines, looked for once a minute; null when the store cannot be read.
const RescoringEngines* engines_of(Context& context, LiveGuard& guard) {
  auto& loop = guard.rescoring_loop;
  if (loop.engines && context.now() < loop.find_engines_us) return &*loop.engines;
  auto found = context.world.store.read([&](store::Reader& reader) {
    return find_rescoring_engines(reader, *guard.contract, guard.row.model, guard.version.engine,
                                  guard.version.checkpoint);
  });
  if (!found) {
    context.warn(fmt::format("the engines that score answers of {} again are not known: {}", guard.row.model,
                             found.error().describe()));
    return nullptr;
  }
  found->served.base_url = guard.version.base_url;
  loop.engines = std::move(*found);
  loop.find_engines_us = context.now() + kFindEnginesUs;
  return &*loop.engines;
}

/// Why no answers are kept; "" = they are to be.
std::string why_none(const Context& context, const LiveGuard& guard, const RescoringEngines& engines) {
  if (!guard.rescoring.watch || !engines.why.empty()) {
    return engines.why.empty() ? "no limit of the contract could be exceeded by an answer's own tokens"
                               : engines.why;
  }
  if (!context.world.driver.capabilities().mirror_response) return "the data plane keeps no answers";
  if (context.now() < guard.rescoring_loop.refused_until_us)
    return "the data plane did not take a route that keeps answers; it is tried again within an hour";
  if (tokens_today(guard.rescoring, context.now()) >= plan_of(guard).budget_tokens)
    return fmt::format("the day's budget of {} tokens is spent", plan_of(guard).budget_tokens);
  return {};
}

EntryValue::Array watches_body(stages::RescoreWatch watch) {
  EntryValue::Array listed;
  for (const auto& verdict : watch.decide().verdicts) {
    listed.emplace_back(EntryValue::Object{
        {"clause", verdict.clause},
        {"slice", schema::slice_text(verdict.where)},
        {"limit_kind", verdict.limit_kind},
        {"limit", EntryValue::measured(verdict.threshold.value_or(0))},
        {"share_of_false_alarms", EntryValue::measured(verdict.details.at("share_of_false_alarms"))}});
  }
  return what_fits(std::move(listed));
}

schema::EntryDraft armed_entry(const Context& context, const LiveGuard& guard,
                               const RescoringEngines& engines) {
  return guard_entry(
      context, guard, schema::EvidenceKind::guard_armed,
      {{"what", kWhat},
       {"promotion", guard.row.promotion},
       {"version", guard.row.version},
       {"reason", fmt::format("answers of engine {} are scored again by engine {} of the training kernel {}",
                              engines.served.name, engines.reference.name, guard.contract->train_kernel)},
       {"figures", EntryValue::Object{{"watches", watches_body(*guard.rescoring.watch)},
                                      {"reference", engines.reference.name},
                                      {"share_bp", plan_of(guard).share_bp},
                                      {"budget_tokens", plan_of(guard).budget_tokens}}}});
}

/// Whether the guarded version serves, if not alone.
bool serves(const LiveGuard& guard, const ModelState& model) {
  return model.desired.incumbent.version == guard.row.version && !model.desired.all_to_fallback;
}

/// Whether the route is the guard's to change: no promotion is under way.
bool is_free(Context& context, const LiveGuard& guard, const ModelState& model) {
  return context.holder(guard.row.model) == nullptr && !model.kept_safe && !model.desired.candidate;
}

bool keeps_now(const LiveGuard& guard, const ModelState& model) {
  const auto& route = model.desired;
  return route.mirror_bp > 0 && !guard.rescoring.spool.empty() && route.stage_key == guard.rescoring.spool;
}

/// Commits a route that keeps answers under `next.spool`, or none, with the guard's row.
void change_route(Context& context, LiveGuard& guard, GuardRescoring next,
                  std::vector<schema::EntryDraft> entries, const std::string& reason) {
  guard.rescoring_loop.next_us = context.now() + kAwayUs;
  auto served = people::serving_promotion(context, guard.row.promotion);
  if (!served || !*served) return;  // the version is being taken away
  const auto facts = context.facts(**served);
  const bool keeps = !next.spool.empty();
  auto route = machine::next_route(*facts.model);
  route.mirror_bp = keeps ? plan_of(guard).share_bp : 0;
  route.mirror_token_budget = keeps ? plan_of(guard).budget_tokens : 0;
  route.stage_key = next.spool;
  Change change{.name = "guard rescoring"};
  machine::set_route(change, std::move(route), reason);
  change.route->of_stage = false;
  if (!guard.rescoring.spool.empty()) change.effects.emplace_back(DropSpool{guard.rescoring.spool});
  auto row = std::make_shared<store::GuardRow>(guard.row);
  row->rescoring = to_json(next);
  change.rows.push_back(
      [row, entries = std::move(entries)](store::Tx& tx, Entries& written) -> schema::Result<void> {
        for (const auto& entry : entries) TRY(add_entry(tx, written, entry));
        if (!entries.empty()) row->evidence_seq = written.last();
        return store::update_guard(tx, *row);
      });
  const auto done = context.commit_change(**served, std::move(change));
  if (!done) {
    return context.warn(fmt::format("which answers of {} are kept is not stored: {}", guard.row.model,
                                    done.error().describe()));
  }
  guard.row = *row;
  guard.rescoring = std::move(next);
  guard.rescoring_loop.full = false;
  guard.rescoring_loop.next_us = context.now() + kNextUs;
}

void begin_part(Context& context, LiveGuard& guard, const RescoringEngines& engines) {
  GuardRescoring next = guard.rescoring;
  next.part += 1;
  next.spool = fmt::format("{}/{}/{}", guard.row.id, kWhat, next.part);
  next.spool_day = day_of(context.now());
  next.offset = 0;
  next.why.clear();
  std::vector<schema::EntryDraft> entries;
  if (next.reference != engines.reference.name) entries.push_back(armed_entry(context, guard, engines));
  next.reference = engines.reference.name;
  change_route(context, guard, std::move(next), std::move(entries),
               "answers of a share of sticky keys are kept for the guard, to be scored again");
}

void stop_keeping(Context& context, LiveGuard& guard, const std::string& why) {
  GuardRescoring next = guard.rescoring;
  next.spool.clear();
  next.offset = 0;
  next.why = why;
  change_route(context, guard, std::move(next), {},
               fmt::format("no answers are kept for the guard: {}", why));
}

void note_why(Context& context, LiveGuard& guard, const std::string& why) {
  if (guard.rescoring.why == why) return;
  GuardRescoring next = guard.rescoring;
  next.why = why;
  auto row = guard.row;
  row.rescoring = to_json(next);
  if (commit_guard(context, guard, std::move(row), {})) guard.rescoring = std::move(next);
}

/// Has answers kept where they can be scored. True when there may be some to read.
bool follow_route(Context& context, LiveGuard& guard, const ModelState& model,
                  const RescoringEngines& engines) {
  const bool keeps = keeps_now(guard, model);
  if (!serves(guard, model)) return false;
  if (!is_free(context, guard, model)) return keeps && engines.why.empty();
  if (keeps && !model.agreed && model.failures >= kRefused)
    guard.rescoring_loop.refused_until_us = context.now() + kRefusedUs;
  const auto why = why_none(context, guard, engines);
  if (!why.empty()) {
    if (keeps) {
      stop_keeping(context, guard, why);
    } else {
      note_why(context, guard, why);
    }
    return false;
  }
  const bool same_day = guard.rescoring.spool_day == day_of(context.now());
  if (keeps && same_day && !guard.rescoring_loop.full) return true;
  begin_part(context, guard, engines);
  return false;
}

/// Looks at the next kept answer, beside the loop.
void look_at_answers(Context& context, LiveGuard& guard, const RescoringEngines& engines) {
  const auto path = context.world.driver.spool_path(guard.rescoring.spool);
  if (!path) return;  // nothing was kept yet
  guard.rescoring_loop.asks = true;
  auto watch = std::make_shared<const stages::RescoreWatch>(*guard.rescoring.watch);
  jobs::KeptAnswers kept{
      .path = *path,
      .offset = guard.rescoring.offset,
      .wants = [watch, now = context.now()](std::uint64_t key_hash) { return watch->takes(key_hash, now); }};
  auto found = std::make_shared<RescoredLook>();
  found->spool = guard.rescoring.spool;
  found->offset = guard.rescoring.offset;
  context.world.look(
      [found, rescore = context.world.rescore, kept = std::move(kept), reference = engines.reference,
       served = engines.served] { found->next = rescore(kept, reference, served); },
      [&context, found, model = guard.row.model, id = guard.row.id] {
        context.effects.emplace_back(UseRescored{model, id, found});
      });
}

/// An engine that does not answer shows nothing about what it computes: it is asked later, and after a few
/// times something else.
void note_unanswered(Context& context, LiveGuard& guard, const jobs::NextAnswer& next) {
  GuardRescoring state = guard.rescoring;
  state.unanswered += 1;
  state.unanswered_why = schema::utf8_text(next.failed->describe(), kMostWhyBytes);
  state.offset = state.unanswered % kMostTries == 0 ? next.after_failed : next.offset;
  const auto doublings = std::min<std::uint64_t>(state.unanswered - 1, 4);
  guard.rescoring_loop.next_us = context.now() + std::min(kAwayUs << doublings, kMaxAwayUs);
  auto row = guard.row;
  row.rescoring = to_json(state);
  if (commit_guard(context, guard, std::move(row), {})) guard.rescoring = std::move(state);
}

/// Adds an answer to the tests. Its figures may be of no use, and then only its tokens count.
void take_answer(GuardRescoring& state, const jobs::NextAnswer::Scored& scored, std::int64_t now_us) {
  state.tokens = tokens_today(state, now_us) + scored.scores.tokens;
  state.day = day_of(now_us);
  const auto taken = state.watch->observe({.key_hash = scored.key_hash,
                                           .slice = scored.slice,
                                           .unfiltered = scored.unfiltered,
                                           .log_p = scored.scores.log_p,
                                           .log_q = scored.scores.log_q,
                                           .at_us = now_us});
  if (taken && *taken) state.newest_us = now_us;
}

void use_next(Context& context, LiveGuard& guard, const jobs::NextAnswer& next) {
  GuardRescoring state = guard.rescoring;
  GuardOrders orders = guard.orders;
  auto row = guard.row;
  std::vector<schema::EntryDraft> entries;
  state.offset = next.offset;
  if (next.scored) {
    take_answer(state, *next.scored, context.now());
    state.unanswered = 0;
    state.unanswered_why.clear();
    const auto decision = state.watch->decide();
    entries = clause_alarms(context, guard, decision, kWhat);
    if (!orders.pending) orders.pending = order_of(decision.escalation, kWhat);
    row.alarms += decision.alarms.size();
    row.orders = to_json(orders);
  }
  row.rescoring = to_json(state);
  guard.rescoring_loop.next_us = context.now() + kNextUs;
  if (!commit_guard(context, guard, std::move(row), entries)) return;
  guard.rescoring = std::move(state);
  guard.orders = std::move(orders);
  if (guard.orders.pending) context.effects.emplace_back(ActOnGuard{guard.row.model});
}

}  // namespace

void tick_rescoring(Context& context, LiveGuard& guard) {
  auto& loop = guard.rescoring_loop;
  const auto model = context.models.find(guard.row.model);
  const bool due = guard.contract->guard->rescoring && !loop.asks && context.now() >= loop.next_us;
  if (!due || model == context.models.end() || guard.orders.pending) return;
  loop.next_us = context.now() + kIdleUs;
  const auto* const engines = engines_of(context, guard);
  if (engines == nullptr || !follow_route(context, guard, model->second, *engines)) return;
  if (is_paid(guard, context.now())) look_at_answers(context, guard, *engines);
}

void use_rescored(Context& context, const UseRescored& done) {
  const auto found = context.guards.find(done.model);
  if (found == context.guards.end() || found->second->row.id != done.guard) return;
  LiveGuard& guard = *found->second;
  guard.rescoring_loop.asks = false;
  const RescoredLook& look = *done.look;
  // The guard may have been read again since, or another file begun: then the answer is asked for once more.
  const bool same = look.spool == guard.rescoring.spool && look.offset == guard.rescoring.offset;
  if (!same || !guard.rescoring.watch || guard.orders.pending) return;
  if (!look.next) {
    return context.warn(fmt::format("the answers kept for the guard of {} cannot be read: {}", done.model,
                                    look.next.error().describe()));
  }
  if (look.next->file_bytes > kMostKeptBytes) guard.rescoring_loop.full = true;
  if (look.next->failed) return note_unanswered(context, guard, *look.next);
  if (look.next->offset != look.offset) use_next(context, guard, *look.next);
}

}  // namespace driftgate::pipeline
