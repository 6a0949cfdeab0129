#include "daemon/pipeline/requests/promotions.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/machine/endings.hpp"
#include "daemon/pipeline/machine/lifecycle.hpp"
#include "daemon/pipeline/machine/routes.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/pipeline/requests/data_plane.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "daemon/store/registry/models.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using store::PromotionState;

/// How often a scheduled promotion that waits in a blackout is checked.
constexpr std::int64_t kBlackoutLookUs = 60'000'000;

store::VersionRow version_of(const store::EngineRow& engine, std::string id, std::int64_t now_us) {
  store::VersionRow version;
  version.id = std::move(id);
  version.checkpoint = engine.checkpoint;
  version.kernel = engine.kernel;
  version.engine = engine.name;
  version.base_url = engine.base_url;
  version.created_us = now_us;
  return version;
}

/// The request is answered with the promotion as it is committed here.
schema::Result<void> note_promotion(Context& context, store::Tx& tx, const store::PromotionRow& row) {
  return note_made(tx, row.id, [&] { return promotion_view(tx, row, context.sources()); });
}

schema::Result<void> note_model(store::Tx& tx, const std::string& name) {
  return note_made(tx, name, [&] { return named_model_view(tx, name); });
}

schema::EntryValue::Object version_body(const store::VersionRow& version) {
  return {{"version", version.id},
          {"engine", version.engine},
          {"kernel", version.kernel},
          {"url", version.base_url}};
}

/// The engine's version as stored, with a new id when it is not.
schema::Result<void> ensure(store::Tx& tx, store::VersionRow& version) {
  auto ensured = TRY(store::ensure_version(tx, version));
  version = std::move(ensured);
  return {};
}

/// The rows and the entry of a request; what is in `live` then is as stored.
schema::Result<void> put_request(store::Tx& tx, Entries& entries, const CheckedRequest& checked,
                                 bool verified, Live& live) {
  TRY(ensure(tx, live.candidate));
  if (checked.fallback) TRY(ensure(tx, live.fallback));
  auto& row = live.row;
  row.candidate = live.candidate.id;
  if (checked.fallback) row.fallback = live.fallback.id;
  schema::EntryDraft entry{
      .time_us = row.created_us,
      .kind = schema::EvidenceKind::promotion_requested,
      .actor = row.requester,
      .subject = subject_of(row, live.candidate.checkpoint),
      .body = {{"engine", row.engine},
               {"kernel", live.candidate.kernel},
               {"candidate", row.candidate},
               {"url", live.candidate.base_url},
               {"seed", row.seed},
               {"fallback", checked.fallback ? schema::EntryValue(version_body(live.fallback)) : nullptr},
               {"checkpoint_verified", verified},
               {"request", entry_value(nlohmann::json::parse(row.request))}}};
  auto kernel = TRY(store::find_kernel(tx, live.candidate.kernel));
  if (kernel) entry.body["kernel_digest"] = kernel->digest;
  auto seq = TRY(entries.add(tx, entry));
  row.evidence_seq = seq;
  return store::insert_promotion(tx, row);
}

/// Ends a queued promotion: it has nothing to take back.
void end_queued(Context& context, Live& live, const Withdrawal& withdrawal) {
  (void)context.commit_or_retry(live, machine::withdraw(context.facts(live), withdrawal));
}

std::vector<std::string> queued_of(const Context& context, std::string_view model) {
  std::vector<std::string> queued;  // by id, which is by age
  for (const auto& [id, live] : context.promotions) {
    if (live->row.model == model && live->row.state == PromotionState::queued) queued.push_back(id);
  }
  return queued;
}

/// What a start depends on, of one snapshot. The candidate and the contract are in memory since the request.
struct Start {
  store::ModelRow model;
  store::VersionRow baseline;
  schema::Result<void> unblocked{};
};

schema::Result<Start> read_start(Context& context, const Live& live) {
  return context.world.store.read([&](store::Reader& reader) -> schema::Result<Start> {
    auto model = TRY(store::get_model(reader, live.row.model));
    auto baseline = TRY(store::find_version(reader, model.incumbent));
    return Start{.model = model,
                 .baseline = baseline.value_or(store::VersionRow{}),
                 .unblocked = people::refuse_blocked(reader, live.candidate.checkpoint, live.candidate.kernel,
                                                     live.row.contract)};
  });
}

void start_promotion(Context& context, Live& live, Start start) {
  if (start.model.incumbent == live.row.candidate) {
    return end_queued(
        context, live,
        {.target = PromotionState::superseded, .reason = "the candidate is the incumbent already"});
  }
  if (!start.unblocked && start.unblocked.error().code == ErrorCode::conflict) {
    return end_queued(context, live,
                      {.target = PromotionState::rejected, .reason = start.unblocked.error().message});
  }
  live.baseline = std::move(start.baseline);
  (void)context.commit_or_retry(live, machine::begin_promotion(context.facts(live), start.model.incumbent));
}

}  // namespace

schema::Result<std::string> create_model(Context& context, const std::string& actor,
                                         const ModelRequest& request) {
  TRY(schema::check_name(request.name, "a model's name", "/name"));
  if (context.models.size() >= route::kMaxModels && !context.models.contains(request.name)) {
    return schema::fail(ErrorCode::limit_exceeded,
                        fmt::format("this daemon has {} models, which is its limit", context.models.size()),
                        "/name");
  }
  auto engine = TRY(look_up(context.world.store, store::find_engine, request.engine));
  if (!engine) return unregistered("engine", request.engine, "/engine");
  const auto can = context.world.driver.capabilities();
  TRY(context.world.store.read(
      [&](store::Reader& reader) { return check_engine_access(can, reader, *engine, "/engine"); }));
  const auto now = context.now();
  auto version = version_of(*engine, context.new_id("ve"), now);
  store::ModelRow model;
  model.name = request.name;
  model.epoch = 1;
  model.lock_owner = context.world.instance;
  model.created_us = model.updated_us = now;
  ModelState state{.epoch = 1};
  state.desired.model = request.name;
  state.desired.epoch = state.desired.revision = 1;
  TRY(context.commit_rows("create model", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    TRY(ensure(tx, version));
    model.incumbent = version.id;
    TRY(store::insert_model(tx, model));
    auto body = version_body(version);
    body["reason"] = request.reason;
    body["claim"] = "none: installed without a promotion";
    schema::EntryDraft entry{.time_us = now,
                             .kind = schema::EvidenceKind::model_bootstrapped,
                             .actor = actor,
                             .subject = {.model = request.name},
                             .body = std::move(body)};
    if (!version.checkpoint.empty()) entry.subject.checkpoint = version.checkpoint;
    auto seq = TRY(entries.add(tx, entry));
    TRY(store::set_model_evidence(tx, request.name, seq));
    state.desired.incumbent = machine::arm(version);
    TRY(put_route(tx, entries, entry.subject, state.desired, "the model's first version", now));
    return note_model(tx, request.name);
  }));
  context.models[request.name] = state;
  context.effects.emplace_back(ApplyRoute{request.name});
  return request.name;
}

schema::Result<std::string> request_promotion(Context& context, const std::string& actor,
                                              const CheckedRequest& checked, bool verified,
                                              const AlsoRequested& also) {
  const auto now = context.now();
  auto live = std::make_unique<Live>();
  live->contract = checked.contract;
  live->candidate = version_of(checked.engine, context.new_id("ve"), now);
  if (checked.fallback) live->fallback = version_of(*checked.fallback, context.new_id("ve"), now);
  auto& row = live->row;
  row = checked.row;
  row.id = context.new_id("pr");
  row.seed = context.new_seed();
  row.created_us = row.updated_us = now;
  row.reason = "requested";
  TRY(context.commit_rows("request promotion", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    // Checked again, since hashing a checkpoint may have taken minutes.
    TRY(promotable_model(tx, row.model));
    TRY(people::refuse_blocked(tx, checked.engine.checkpoint, checked.engine.kernel, row.contract));
    TRY(put_request(tx, entries, checked, verified, *live));
    TRY(note_promotion(context, tx, row));
    return also ? also(tx, entries, row) : schema::Result<void>{};
  }));
  const auto older = queued_of(context, row.model);
  const auto id = row.id;
  const auto name = row.model;
  context.promotions[id] = std::move(live);
  for (const auto& queued : older) {
    end_queued(
        context, *context.lookup(queued),
        {.target = PromotionState::superseded, .actor = actor, .reason = fmt::format("{} is newer", id)});
  }
  context.effects.emplace_back(StartNext{name});
  return id;
}

void start_next(Context& context, const std::string& model) {
  if (context.holder(model) != nullptr || context.rollbacks.contains(model)) return;
  const auto queued = queued_of(context, model);
  if (queued.empty()) return;
  auto& next = *context.lookup(queued.back());
  auto start = read_start(context, next);
  if (!start || start->model.hold) return;
  for (std::size_t i = 0; i + 1 < queued.size(); ++i) {
    end_queued(context, *context.lookup(queued[i]),
               {.target = PromotionState::superseded, .reason = fmt::format("{} is newer", queued.back())});
  }
  if (next.row.requester.starts_with("schedule/") && context.blackout_of(model) != nullptr) {
    next.retry_at_us = context.now() + kBlackoutLookUs;
    return;
  }
  start_promotion(context, next, std::move(*start));
}

}  // namespace driftgate::pipeline
