#include "daemon/pipeline/core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

constexpr std::int64_t kFirstRetryUs = 1'000'000;
constexpr std::int64_t kMaxRetryUs = 60'000'000;
constexpr std::uint64_t kSeedMask = (std::uint64_t{1} << 53) - 1;  // JSON carries it exactly

}  // namespace

void Core::publish(const std::vector<Event>& events) {
  for (const auto& event : events) world_.publish(event);
}

/// `work`, and in the same transaction what people are told of its entries.
Work Core::telling(const Work& work) const {
  if (world_.outbox.empty()) return work;
  return [this, &work](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto done = work(tx, entries);
    if (!done) return done;
    for (const auto& event : entries.events()) {
      auto put = world_.outbox.put(tx, event.json, now());
      if (!put) return put;
    }
    return {};
  };
}

/// A command has one deciding transaction, its first: what the loop writes after it follows from what was allowed
/// then, and is not asked about again.
schema::Result<void> Core::commit(std::string_view what, const Work& work) {
  auto done = world_.committer.commit(what, telling(work));
  if (!done) return std::unexpected(done.error());
  store::leave_write_scope();
  publish(*done);
  return {};
}

/// A COMMIT that a safe route must not wait for: past the patience, the route goes out first and is recorded
/// when the COMMIT is through (pipeline.md, section 3). `ahead`: it went out, and who asked for it was refused then.
schema::Result<void> Core::commit_urgent(std::string_view what, const Work& work, const route::ModelRoute& safe,
                                         bool& ahead) {
  auto* const scope = store::current_write_scope();
  if (scope != nullptr) {
    // Asked before as well, since a route may go out before the transaction says no.
    auto allowed = world_.store.read([&](store::Reader& reader) { return scope->allow(reader); });
    if (!allowed) return allowed;
  }
  auto future = std::async(std::launch::async, [&] {
    const store::EnterWriteScope entered(scope);
    return world_.committer.commit(what, telling(work));
  });
  if (future.wait_for(std::chrono::milliseconds(world_.settings.commit_patience_ms)) !=
      std::future_status::ready) {
    ahead = true;
    auto applied = apply_and_read_back(safe);
    if (!applied)
      warn(fmt::format("weight 0 of {} could not be applied before its record: {}", safe.model,
                       applied.error().describe()));
  }
  auto done = future.get();
  if (!done) {
    // Nothing is recorded, so the data plane keeps the safe route until the record succeeds; unless the token of
    // who asked for it has ended.
    if (done.error().code != ErrorCode::unauthenticated) (void)apply_and_read_back(safe);
    return std::unexpected(done.error());
  }
  store::leave_write_scope();
  publish(*done);
  return {};
}

std::string Core::new_id(std::string_view prefix) {
  return store::make_id(prefix, now(), world_.random());
}

std::uint64_t Core::new_seed() {
  std::uint64_t seed = 0;
  for (const auto byte : world_.random()) seed = (seed << 8) ^ (seed >> 56) ^ byte;
  return seed & kSeedMask;
}

Live* Core::find(std::string_view id) {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second.get();
}

Live* Core::holder(std::string_view model) {
  for (auto& [id, live] : live_) {
    if (live->row.model == model && store::holds_model(live->row.state)) return live.get();
  }
  return nullptr;
}

schema::Result<Live*> Core::get_live(const std::string& id) {
  if (auto* live = find(id)) return live;
  auto row = world_.store.read([&](store::Reader& reader) { return store::get_promotion(reader, id); });
  if (!row) return std::unexpected(row.error());
  return schema::fail(ErrorCode::conflict,
                      fmt::format("promotion {} has ended: it is {}", id, store::to_string(row->state)));
}

schema::EntryDraft Core::draft(const Live& live, schema::EvidenceKind kind, std::string_view actor,
                               schema::EntryValue::Object body) const {
  schema::EntryDraft entry;
  entry.time_us = now();
  entry.kind = kind;
  entry.actor = std::string(actor.empty() ? std::string_view(kDaemonActor) : actor);
  entry.subject = subject_of(live.row, live.candidate.checkpoint, &live.run.key);
  entry.body = std::move(body);
  return entry;
}

/// Writes the changed row with the entry that says so; `row.reason` is the entry's reason.
schema::Result<void> Core::record_state(store::Tx& tx, Entries& entries, const Live& live,
                                        store::PromotionRow& row, const store::StageRunRow& run,
                                        std::string_view actor) const {
  auto body =
      state_body(store::to_string(live.row.state), store::to_string(row.state), row.stage, row.reason);
  body["attempt"] = row.attempt;
  body["traffic"] = store::to_string(row.traffic);
  body["baseline"] = row.baseline;
  body["resume"] = row.resume_state ? store::to_string(*row.resume_state) : std::string_view();
  body["deadline_us"] = row.deadline_us.value_or(-1);
  body["outcome_digest"] = row.outcome.empty() ? std::string() : schema::sha256_digest(row.outcome);
  auto entry = draft(live, schema::EvidenceKind::state_changed, actor, std::move(body));
  entry.subject = subject_of(row, live.candidate.checkpoint, &run.key);
  auto seq = entries.add(tx, entry);
  if (!seq) return std::unexpected(seq.error());
  row.evidence_seq = *seq;
  row.updated_us = now();
  return store::update_promotion(tx, row);
}

schema::Result<void> Core::touch(store::Tx& tx, store::PromotionRow& row, std::int64_t seq) const {
  row.evidence_seq = seq;
  row.updated_us = now();
  return store::update_promotion(tx, row);
}

/// A step that could not be committed: what is in memory is forgotten and read again after a while.
void Core::stumble(Live& live, const schema::Error& error) {
  const auto wait = std::min(kFirstRetryUs << std::min(live.failures, 6U), kMaxRetryUs);
  live.failures += 1;
  live.retry_at_us = now() + wait;
  warn(fmt::format("promotion {}: {}; trying again in {} ms", live.row.id, error.describe(), wait / 1'000));
}

std::int64_t Core::telemetry_age_ms() const {
  std::int64_t newest = 0;
  for (const auto& [name, model] : models_) newest = std::max(newest, model.last_window_us);
  return newest == 0 ? -1 : std::max<std::int64_t>(0, (now() - newest) / 1'000);
}

bool Core::routes_agree() const {
  return std::ranges::all_of(models_, [](const auto& item) { return item.second.agreed; });
}

}  // namespace driftgate::pipeline
