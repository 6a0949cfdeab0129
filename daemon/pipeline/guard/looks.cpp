#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/base/read_file.hpp"
#include "daemon/jobs/engines/golden.hpp"
#include "daemon/jobs/rooted_path.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/guard/look.hpp"
#include "daemon/store/look_up.hpp"

// Looks at the engine of a guarded version: golden probes, and what it says it is.
namespace driftgate::pipeline {
namespace {

using schema::Action;
using schema::EntryValue;
using schema::EvidenceKind;

constexpr std::int64_t kDayUs = 86'400'000'000;
/// An alarm of the probes has cleared below this part of what raised it.
constexpr double kClears = 0.01;
constexpr const char* kProbes = "probes";
constexpr const char* kIdentity = "identity";

std::int64_t day_of(std::int64_t now_us) {
  return now_us / kDayUs;
}

/// The first kGoldenCorpusBytes of a file below the configured roots.
schema::Result<std::string> head_of(const std::string& uri, const std::vector<std::string>& roots) {
  const auto file = TRY(jobs::open_below(uri, roots));
  return base::read_head(file.get(), uri, jobs::kGoldenCorpusBytes);
}

/// Of the promotion's corpora, the one of offline-numeric before that of the slices.
std::string corpus_of(const PromotionRequest& request) {
  for (const auto* captures : {&request.numeric, &request.slice}) {
    if (*captures && !(*captures)->corpus.empty()) return (*captures)->corpus;
  }
  return {};
}

schema::Result<std::vector<std::string>> find_prompts(Context& context, const std::string& promotion,
                                                      std::size_t count) {
  const auto row = TRY(look_up(context.world.store, store::get_promotion, promotion));
  const auto request = TRY(parse_promotion_request(row.request));
  const std::string corpus = corpus_of(request);
  if (corpus.empty()) return std::vector<std::string>();
  const auto text = TRY(head_of(corpus, context.world.settings.roots));
  return jobs::choose_prompts(text, count, row.seed);
}

/// Runs a look beside the loop; its result comes back as an effect.
template <typename Look>
void look_beside(Context& context, LiveGuard& guard, Look look) {
  guard.asking = true;
  auto result = std::make_shared<GuardLook>();
  context.world.look([result, look] { look(*result); },
                     [&context, result, model = guard.row.model, id = guard.row.id] {
                       context.effects.emplace_back(UseGuardLook{model, id, result});
                     });
}

void look_for_prompts(Context& context, LiveGuard& guard) {
  const auto count = guard.contract->guard->probes.prompts;
  look_beside(context, guard, [&context, promotion = guard.row.promotion, count](GuardLook& look) {
    look.found = PromptsFound{find_prompts(context, promotion, count)};
  });
}

void ask_prompt(Context& context, LiveGuard& guard) {
  const std::size_t index = guard.probes.watch->next();
  look_beside(context, guard,
              [probe = context.world.probe, engine = guard.engine, index,
               prompt = guard.probes.prompts[index], at = context.now()](GuardLook& look) {
                look.found = ProbeAnswered{probe(engine, prompt), index, at};
              });
}

void ask_identity(Context& context, LiveGuard& guard) {
  look_beside(context, guard, [identify = context.world.identify, engine = guard.engine](GuardLook& look) {
    look.found = IdentityTold{identify(engine.base_url, engine.model)};
  });
}

}  // namespace

bool commit_guard(Context& context, LiveGuard& guard, store::GuardRow row,
                  const std::vector<schema::EntryDraft>& entries) {
  const auto done =
      context.commit_rows("guard", [&](store::Tx& tx, Entries& written) -> schema::Result<void> {
        for (const auto& entry : entries) TRY(add_entry(tx, written, entry));
        if (!entries.empty()) row.evidence_seq = written.last();
        return store::update_guard(tx, row);
      });
  if (done) {
    guard.row = std::move(row);
    guard.unsaved = false;
    return true;
  }
  context.warn(fmt::format("what the guard of {} has seen is not stored: {}", guard.row.model,
                           done.error().describe()));
  return false;
}

namespace {

/// What a look has brought. Without evidence there is nothing that must be durable with it: see store_guards.
bool keep_look(Context& context, LiveGuard& guard, store::GuardRow row,
               const std::vector<schema::EntryDraft>& entries) {
  if (!entries.empty()) return commit_guard(context, guard, std::move(row), entries);
  guard.row = std::move(row);
  guard.unsaved = true;
  return true;
}

schema::EntryDraft raised(const Context& context, const LiveGuard& guard, const char* what, Action action,
                          std::string reason, EntryValue::Object figures) {
  return guard_entry(context, guard, EvidenceKind::guard_alarmed,
                     {{"what", what},
                      {"state", "raised"},
                      {"reason", std::move(reason)},
                      {"figures", std::move(figures)},
                      {"ordered", schema::to_string(action)},
                      {"rule", fmt::format("guard.{}.action → {}", what, schema::to_string(action))},
                      {"notify", true}});
}

schema::EntryDraft cleared(const Context& context, const LiveGuard& guard, const char* what,
                           std::string reason, EntryValue::Object figures) {
  return guard_entry(
      context, guard, EvidenceKind::guard_alarmed,
      {{"what", what}, {"state", "cleared"}, {"reason", std::move(reason)}, {"figures", std::move(figures)}});
}

/// The row with an alarm counted and, where it orders more than a notice, the order.
void add_alarm(store::GuardRow& row, GuardOrders& orders, const char* what, Action action,
               const std::string& reason) {
  row.alarms += 1;
  if (action >= Action::route_slice && !orders.pending) {
    orders.pending = GuardOrder{.action = action,
                                .what = what,
                                .clause = {},
                                .slices = {},
                                .rule = fmt::format("guard.{}.action → {}", what, schema::to_string(action)),
                                .reason = reason};
  }
  row.orders = to_json(orders);
}

void act_if_ordered(Context& context, LiveGuard& guard, GuardOrders orders) {
  guard.orders = std::move(orders);
  if (guard.orders.pending) context.effects.emplace_back(ActOnGuard{guard.row.model});
}

EntryValue::Object probe_figures(const stages::ProbeWatch& watch) {
  const auto figures = watch.figures();
  const auto measured = [](double value) { return EntryValue::measured(value); };
  return {{"asked", figures.asked},
          {"compared", figures.compared},
          {"exceeding", figures.exceeding},
          {"flipped", figures.flipped},
          {"value", measured(watch.value())},
          {"mean_distance", measured(figures.mean_distance)},
          {"newest_distance", measured(figures.newest_distance)},
          {"floor_largest", measured(figures.floor_largest)},
          {"floor_mean", measured(figures.floor_mean)},
          {"since_us", figures.since_us}};
}

double probes_needed(const LiveGuard& guard) {
  const double share = guard.tests.probe_share();
  return share > 0 ? 1 / share : 1;
}

/// There will be no probes, for this reason.
void note_no_probes(Context& context, LiveGuard& guard, std::string why) {
  GuardProbes probes = guard.probes;
  probes.why = std::move(why);
  auto row = guard.row;
  row.probes = to_json(probes);
  if (commit_guard(context, guard, std::move(row), {})) guard.probes = std::move(probes);
}

/// Prompts were chosen, or cannot be.
void use_prompts(Context& context, LiveGuard& guard, const schema::Result<std::vector<std::string>>& found) {
  if (!found) {
    return note_no_probes(context, guard,
                          fmt::format("the promotion's corpus cannot be read: {}", found.error().describe()));
  }
  if (found->empty())
    return note_no_probes(context, guard, "the promotion's corpus has no line with a prompt or a text");
  GuardProbes probes = guard.probes;
  const auto mean_us = guard.contract->guard->mean_time_between_false_alarms_ms * 1'000;
  probes.prompts = *found;
  probes.watch.emplace(found->size(), mean_us, context.new_seed());
  auto row = guard.row;
  row.probes = to_json(probes);
  if (commit_guard(context, guard, std::move(row), {})) guard.probes = std::move(probes);
}

/// What one more answer has changed about the alarm, as entries; `row` and `orders` take it in.
std::vector<schema::EntryDraft> judge_probes(const Context& context, const LiveGuard& guard,
                                             GuardProbes& probes, store::GuardRow& row, GuardOrders& orders) {
  std::vector<schema::EntryDraft> entries;
  const auto& plan = guard.contract->guard->probes;
  const double value = probes.watch->value();
  const double needed = probes_needed(guard);
  if (probes.watch->armed() && !guard.probes.watch->armed()) {
    entries.push_back(guard_entry(
        context, guard, EvidenceKind::guard_armed,
        {{"what", kProbes},
         {"promotion", guard.row.promotion},
         {"version", guard.row.version},
         {"reason",
          fmt::format("the answers to {} golden prompts and their floor are known", probes.prompts.size())},
         {"figures", probe_figures(*probes.watch)}}));
  }
  if (!probes.alarming && value >= needed) {
    probes.alarming = true;
    const auto reason = fmt::format(
        "the answers of engine {} to golden prompts are no longer those of the promotion: {:.4g} of {:.4g} "
        "needed",
        guard.version.engine, value, needed);
    entries.push_back(raised(context, guard, kProbes, plan.action, reason, probe_figures(*probes.watch)));
    add_alarm(row, orders, kProbes, plan.action, reason);
  } else if (probes.alarming && value < kClears * needed) {
    probes.alarming = false;
    entries.push_back(cleared(context, guard, kProbes,
                              "the answers to golden prompts are those of the promotion again",
                              probe_figures(*probes.watch)));
  }
  return entries;
}

void use_answer(Context& context, LiveGuard& guard, const ProbeAnswered& answered) {
  const auto now = context.now();
  // The guard may have been read again since: then the prompt is asked once more.
  if (!guard.probes.watch || guard.probes.watch->next() != answered.prompt) return;
  if (!answered.golden) {
    guard.probes.unanswered += 1;
    return;
  }
  GuardProbes probes = guard.probes;
  if (probes.day != day_of(now)) probes.tokens = 0;
  probes.day = day_of(now);
  probes.tokens += answered.golden->tokens;
  const bool said = probes.watch->observe(answered.golden->answer, answered.asked_us);
  probes.unanswered = said ? 0 : probes.unanswered + 1;
  if (said) probes.newest_us = now;
  auto row = guard.row;
  GuardOrders orders = guard.orders;
  const auto entries = judge_probes(context, guard, probes, row, orders);
  row.probes = to_json(probes);
  if (!keep_look(context, guard, std::move(row), entries)) return;
  guard.probes = std::move(probes);
  act_if_ordered(context, guard, std::move(orders));
}

EntryValue::Array members_body(const stages::Identity& identity) {
  EntryValue::Array list;
  for (const auto& [name, value] : identity)
    list.emplace_back(EntryValue::Object{{"name", name}, {"value", value}});
  return what_fits(std::move(list));
}

EntryValue::Array changes_body(const std::vector<stages::IdentityChange>& changes) {
  EntryValue::Array list;
  for (const auto& change : changes) {
    list.emplace_back(
        EntryValue::Object{{"name", change.name}, {"promoted", change.promoted}, {"now", change.now}});
  }
  return what_fits(std::move(list));
}

/// The members that two answers in a row agree on: what differs between them is no identity.
stages::Identity stable(const stages::Identity& first, const stages::Identity& second) {
  stages::Identity both;
  for (const auto& [name, value] : first) {
    const auto found = second.find(name);
    if (found != second.end() && found->second == value) both[name] = value;
  }
  return both;
}

std::string change_text(const std::vector<stages::IdentityChange>& changes) {
  const auto& first = changes.front();
  return fmt::format("{} was \"{}\" when it was promoted and is {}{}", first.name, first.promoted,
                     first.now.empty() ? std::string("no longer told") : fmt::format("\"{}\"", first.now),
                     changes.size() > 1 ? fmt::format("; {} more members differ", changes.size() - 1) : "");
}

/// The first answers: what the engine is held against.
void learn_identity(Context& context, LiveGuard& guard, const stages::Identity& told) {
  GuardIdentity identity = guard.identity;
  identity.newest_us = context.now();
  std::vector<schema::EntryDraft> entries;
  if (!identity.first) {
    identity.first = told;
  } else {
    const auto promoted = stable(*identity.first, told);
    identity.first.reset();
    identity.watch.emplace(promoted);
    entries.push_back(guard_entry(
        context, guard, EvidenceKind::guard_armed,
        {{"what", kIdentity},
         {"promotion", guard.row.promotion},
         {"version", guard.row.version},
         {"reason", fmt::format("engine {} told {} things of itself", guard.version.engine, promoted.size())},
         {"figures", members_body(promoted)}}));
  }
  auto row = guard.row;
  row.identity = to_json(identity);
  if (keep_look(context, guard, std::move(row), entries)) guard.identity = std::move(identity);
}

void use_identity(Context& context, LiveGuard& guard, const schema::Result<stages::Identity>& told) {
  if (!told) return;  // an engine that cannot be asked is not another engine
  if (!guard.identity.watch) return learn_identity(context, guard, *told);
  GuardIdentity identity = guard.identity;
  identity.newest_us = context.now();
  const auto before = identity.watch->last();
  const bool was_told = identity.watch->told();
  const auto changes = identity.watch->observe(*told);
  if (changes.empty() && identity.watch->last() == before) {
    guard.identity.newest_us = identity.newest_us;
    return;
  }
  auto row = guard.row;
  GuardOrders orders = guard.orders;
  std::vector<schema::EntryDraft> entries;
  const auto action = guard.contract->guard->identity.action;
  if (!changes.empty()) {
    const auto reason =
        fmt::format("engine {} is not what was promoted: {}", guard.version.engine, change_text(changes));
    entries.push_back(
        raised(context, guard, kIdentity, action, reason, {{"changes", changes_body(changes)}}));
    add_alarm(row, orders, kIdentity, action, reason);
  } else if (was_told && identity.watch->last().empty()) {
    entries.push_back(cleared(context, guard, kIdentity,
                              fmt::format("engine {} is what was promoted again", guard.version.engine),
                              {{"changes", changes_body(before)}}));
  }
  row.identity = to_json(identity);
  if (!keep_look(context, guard, std::move(row), entries)) return;
  guard.identity = std::move(identity);
  act_if_ordered(context, guard, std::move(orders));
}

/// Whether a probe is due and paid for; the next one's time is set when there is none to ask.
bool is_probe_due(const Context& context, LiveGuard& guard) {
  const auto& plan = guard.contract->guard->probes;
  const auto now = context.now();
  if (plan.prompts == 0 || !guard.probes.why.empty() || now < guard.next_probe_us) return false;
  guard.next_probe_us = now + plan.every_ms * 1'000;
  const bool spent = guard.probes.day == day_of(now) && guard.probes.tokens >= plan.budget_tokens;
  if (spent) guard.next_probe_us = (day_of(now) + 1) * kDayUs;
  return !spent;
}

void tick_guard(Context& context, LiveGuard& guard) {
  const auto now = context.now();
  if (guard.orders.pending && !guard.acting && now >= guard.retry_at_us)
    context.effects.emplace_back(ActOnGuard{guard.row.model});
  if (guard.asking) return;
  if (now >= guard.next_identity_us) {
    guard.next_identity_us = now + guard.contract->guard->identity.every_ms * 1'000;
    return ask_identity(context, guard);
  }
  if (!is_probe_due(context, guard)) return;
  if (guard.engine.by == jobs::LogprobsBy::none) {
    note_no_probes(context, guard, fmt::format("engine {} gives no log-probabilities", guard.version.engine));
  } else if (guard.probes.watch) {
    ask_prompt(context, guard);
  } else {
    look_for_prompts(context, guard);
  }
}

}  // namespace

void tick_guards(Context& context) {
  for (const auto& [model, at_us] : context.guards_to_read) {
    if (context.now() >= at_us) context.effects.emplace_back(LoadGuard{model});
  }
  for (const auto& [model, guard] : context.guards) {
    tick_guard(context, *guard);
    tick_rescoring(context, *guard);
  }
}

void store_guards(Context& context) {
  std::vector<LiveGuard*> unsaved;
  for (const auto& [model, guard] : context.guards)
    if (guard->unsaved) unsaved.push_back(guard.get());
  if (unsaved.empty()) return;
  const auto done = context.commit_rows("guards", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    for (const auto* guard : unsaved) TRY(store::update_guard(tx, guard->row));
    return {};
  });
  if (done) {
    for (auto* guard : unsaved) guard->unsaved = false;
    return;
  }
  context.warn(fmt::format("what {} guards have seen is not stored yet: {}", unsaved.size(),
                           done.error().describe()));
  if (concerns_store(done.error())) return;
  // One of them cannot be stored: the others are, each by itself, and that one is read again.
  for (auto* guard : unsaved) {
    if (commit_guard(context, *guard, guard->row, {})) continue;
    guard->unsaved = false;
    context.effects.emplace_back(LoadGuard{guard->row.model});
  }
}

void use_guard_look(Context& context, const UseGuardLook& done) {
  const auto found = context.guards.find(done.model);
  if (found == context.guards.end() || found->second->row.id != done.guard) return;
  LiveGuard& guard = *found->second;
  guard.asking = false;
  const auto& look = done.look->found;
  if (const auto* prompts = std::get_if<PromptsFound>(&look)) use_prompts(context, guard, prompts->prompts);
  if (const auto* answered = std::get_if<ProbeAnswered>(&look)) use_answer(context, guard, *answered);
  if (const auto* identity = std::get_if<IdentityTold>(&look))
    use_identity(context, guard, identity->identity);
}

}  // namespace driftgate::pipeline
