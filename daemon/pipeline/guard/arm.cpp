#include <fmt/format.h>

#include <algorithm>

#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/stages/canary_stage.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/engines.hpp"
#include "schema/evidence/canonical_entry.hpp"

namespace driftgate::pipeline {
namespace {

using schema::EntryValue;
using schema::ErrorCode;

constexpr std::int64_t kReadAgainUs = 60'000'000;
constexpr std::size_t kMostListedBytes = 40'000;  ///< of one list in an entry; below kMaxEntryBytes
static_assert(kMostListedBytes < schema::kMaxEntryBytes);

EntryValue::Object watch_body(const schema::ClauseVerdict& verdict) {
  const auto measured = [&](const char* name) { return EntryValue::measured(verdict.details.at(name)); };
  return {{"clause", verdict.clause},
          {"slice", schema::slice_text(verdict.where)},
          {"limit", EntryValue::measured(verdict.threshold.value_or(0))},
          {"share_of_false_alarms", measured("share_of_false_alarms")},
          {"promoted_keys", measured("promoted_keys")},
          {"promoted_periods", measured("promoted_periods")},
          {"promoted_failed", measured("promoted_failed")}};
}

EntryValue::Object armed_body(const store::GuardRow& row, const schema::GuardPlan& plan,
                              const std::vector<schema::ClauseVerdict>& watches) {
  EntryValue::Array listed;
  for (const auto& watch : watches) listed.emplace_back(watch_body(watch));
  return {{"guard", row.id},
          {"what", "traffic"},
          {"promotion", row.promotion},
          {"version", row.version},
          {"reason", fmt::format("{} clauses and slices are tested on live traffic", watches.size())},
          {"figures", EntryValue::Object{
                          {"watches", what_fits(std::move(listed))},
                          {"mean_time_between_false_alarms_ms", plan.mean_time_between_false_alarms_ms}}}};
}

/// How the engine is asked golden prompts.
schema::Result<void> read_engine(store::Reader& reader, LiveGuard& guard) {
  auto engine = TRY(store::find_engine(reader, guard.version.engine));
  if (!engine)
    return schema::fail(ErrorCode::corrupt, fmt::format("engine {} is not stored", guard.version.engine));
  const auto abilities = TRY(jobs::abilities_from_json(engine->abilities));
  guard.engine = jobs::golden_engine(guard.version.base_url, guard.row.model, abilities);
  return {};
}

schema::Result<stages::GuardState> read_tests(store::Reader& reader, const store::GuardRow& row,
                                              const schema::Contract& contract) {
  const auto keys = TRY(store::guard_keys(reader, row.id));
  return stages::GuardState::deserialise(contract, row.traffic, keys);
}

schema::Result<std::unique_ptr<LiveGuard>> read_guard(store::Reader& reader, const store::GuardRow& row) {
  const auto stored = TRY(store::find_contract(reader, row.contract));
  if (!stored)
    return schema::fail(ErrorCode::corrupt, fmt::format("contract {} is not stored", row.contract));
  auto contract = TRY(parse_contract_row(*stored));
  auto version = TRY(store::find_version(reader, row.version));
  if (!version) return schema::fail(ErrorCode::corrupt, fmt::format("version {} is not stored", row.version));
  auto tests = TRY(read_tests(reader, row, *contract));
  auto orders = TRY(guard_orders_from_json(row.orders));
  auto probes = TRY(guard_probes_from_json(row.probes));
  auto identity = TRY(guard_identity_from_json(row.identity));
  auto rescoring =
      TRY(guard_rescoring_from_json(row.rescoring, *contract, tests.rescoring_share(), row.armed_us));
  auto guard = std::make_unique<LiveGuard>(LiveGuard{.row = row,
                                                     .contract = std::move(contract),
                                                     .version = std::move(*version),
                                                     .engine = {},
                                                     .tests = std::move(tests),
                                                     .orders = std::move(orders),
                                                     .probes = std::move(probes),
                                                     .identity = std::move(identity),
                                                     .rescoring = std::move(rescoring)});
  TRY(read_engine(reader, *guard));
  return guard;
}

/// The answers that an ended guard has kept are of no use any more.
void forget_kept_answers(Context& context, const std::string& model) {
  const auto ended = look_up(context.world.store, store::find_ended_guard, model);
  if (!ended || !*ended) return;
  auto kept = kept_answers_of((*ended)->rescoring);
  if (!kept.empty()) context.effects.emplace_back(DropSpool{std::move(kept)});
}

}  // namespace

schema::EntryDraft guard_entry(const Context& context, const LiveGuard& guard, schema::EvidenceKind kind,
                               EntryValue::Object body) {
  schema::EntryDraft entry{
      .time_us = context.now(), .kind = kind, .actor = kDaemonActor, .body = std::move(body)};
  entry.body["guard"] = guard.row.id;
  entry.subject.model = guard.row.model;
  entry.subject.checkpoint = guard.version.checkpoint;
  entry.subject.contract = guard.row.contract;
  return entry;
}

EntryValue::Array what_fits(EntryValue::Array items) {
  std::size_t bytes = 0;
  const auto beyond = std::ranges::find_if(items, [&](const EntryValue& item) {
    const auto canonical = schema::write_canonical(item);
    bytes += canonical ? canonical->size() + 1 : kMostListedBytes;
    return bytes >= kMostListedBytes;
  });
  items.erase(beyond, items.end());
  return items;
}

void arm_guard(Context& context, Live& live, Change& change) {
  if (!live.contract->guard) return;
  auto promoted = promoted_by_canary(context, live);
  if (!promoted) {
    context.warn(
        fmt::format("what the canary of {} saw cannot be read, so that its guard tests no clause: {}",
                    live.row.id, promoted.error().describe()));
  }
  const auto now = context.now();
  auto tests = stages::GuardState::create(*live.contract, promoted.value_or(stages::Promoted{}), {now});
  if (!tests) {
    return context.warn(fmt::format("promotion {} gets no guard: {}", live.row.id, tests.error().describe()));
  }
  store::GuardRow row{.id = context.new_id("gd"),
                      .model = live.row.model,
                      .promotion = live.row.id,
                      .version = live.row.candidate,
                      .contract = live.row.contract,
                      .armed_us = now,
                      .traffic = tests->serialise()};
  auto body = armed_body(row, *live.contract->guard, tests->decide().verdicts);
  schema::EntryDraft entry{.time_us = now,
                           .kind = schema::EvidenceKind::guard_armed,
                           .actor = kDaemonActor,
                           .body = std::move(body)};
  entry.subject.model = row.model;
  entry.subject.checkpoint = live.candidate.checkpoint;
  entry.subject.contract = row.contract;
  change.guard = Change::Guard{std::move(row), std::move(entry), tests->hour(), tests->take_new_keys()};
}

void load_guard(Context& context, const std::string& model) {
  context.guards.erase(model);
  context.guards_to_read.erase(model);
  forget_kept_answers(context, model);
  auto guard =
      context.world.store.read([&](store::Reader& reader) -> schema::Result<std::unique_ptr<LiveGuard>> {
        const auto row = TRY(store::find_armed_guard(reader, model));
        if (!row) return std::unique_ptr<LiveGuard>();
        return read_guard(reader, *row);
      });
  if (!guard) {
    context.guards_to_read[model] = context.now() + kReadAgainUs;
    return context.warn(fmt::format("the guard of {} cannot be read, so that nothing is watched: {}", model,
                                    guard.error().describe()));
  }
  if (!*guard) return;
  const bool waits = (*guard)->orders.pending.has_value();
  context.guards[model] = std::move(*guard);
  if (waits) context.effects.emplace_back(ActOnGuard{model});
}

}  // namespace driftgate::pipeline
