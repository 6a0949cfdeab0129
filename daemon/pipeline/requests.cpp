#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/jobs/rooted_path.hpp"
#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/views.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "schema/contract/stored_contract.hpp"
#include "schema/names.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using store::PromotionState;

bool demands(const schema::Contract& contract, schema::Stage stage) {
  return std::ranges::any_of(contract.clauses, [&](const schema::Clause& clause) {
    return (clause.stages & schema::stage_bit(stage)) != 0;
  });
}

schema::Result<store::ContractRow> find_contract(store::Reader& reader, const std::string& name) {
  auto found = name.starts_with("sha256:") ? store::find_contract(reader, name)
                                           : store::find_contract_by_name(reader, name);
  if (!found) return std::unexpected(found.error());
  if (!*found)
    return schema::fail(ErrorCode::not_found, fmt::format("there is no contract {}; register it first", name),
                        "/contract");
  return **found;
}

schema::Result<void> check_source(const CaptureSource& source, const Settings& settings,
                                  const std::string& where) {
  if (!source.adapter.empty()) {
    if (settings.adapters.contains(source.adapter)) return {};
    std::string names;
    for (const auto& [name, adapter] : settings.adapters) names += (names.empty() ? "" : ", ") + name;
    return schema::fail(ErrorCode::not_found,
                        fmt::format("there is no adapter '{}' in the settings; there are: {}", source.adapter,
                                    names.empty() ? "none" : names),
                        where);
  }
  auto opened = jobs::open_below(source.uri, settings.roots);
  if (opened) return {};
  return std::unexpected(schema::Error{opened.error().code, opened.error().message, where, nullptr});
}

/// The first clause of the stage that needs a floor that was not given.
schema::Result<void> check_floors(const StageCaptures& captures, const Settings& settings,
                                  const schema::Contract& contract, schema::Stage stage,
                                  const std::string& where) {
  for (const auto& [floor, name] :
       {std::pair{&captures.floor_train, "train"}, {&captures.floor_inf, "inf"}}) {
    if (!*floor) continue;
    auto second = check_source((*floor)->second, settings, where + "/" + name);
    if (!second) return second;
    if (!(*floor)->first) continue;
    auto first = check_source(*(*floor)->first, settings, where + "/" + name);
    if (!first) return first;
  }
  for (const schema::Clause& clause : contract.clauses) {
    if ((clause.stages & schema::stage_bit(stage)) == 0 || clause.severity == schema::Severity::soft)
      continue;
    const auto* metric = std::get_if<schema::MetricSubject>(&clause.subject);
    const bool batch = metric != nullptr && metric->metric == schema::Metric::batch_variant_rate;
    const bool wants_any = clause.limits.floor_multiple && !captures.floor_train && !captures.floor_inf;
    if (!wants_any && !(batch && !captures.floor_inf)) continue;
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "{} needs a noise floor: capture the rows of this stage once more with another batch size{} "
            "and give that capture as floor.{} (`driftgate promote`: --{}-floor-{})",
            clause.address(), batch ? ", by the inference kernel," : "", batch ? "inf" : "train or floor.inf",
            stage == schema::Stage::offline_numeric ? "numeric" : "slice", batch ? "inf" : "train or -inf"),
        where);
  }
  return {};
}

schema::Result<void> check_captures(const std::optional<StageCaptures>& captures, const Settings& settings,
                                    const schema::Contract& contract, schema::Stage stage,
                                    const std::string& name) {
  const auto where = "/captures/" + name;
  if (!captures) {
    if (!demands(contract, stage)) return {};
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "the contract has clauses for {}, so captures.{} is needed: {{\"train\", \"inf\", \"corpus\"}}",
            schema::to_string(stage), name),
        where);
  }
  auto train = check_source(captures->train, settings, where + "/train");
  if (!train) return train;
  auto inf = check_source(captures->inf, settings, where + "/inf");
  if (!inf) return inf;
  auto floors = check_floors(*captures, settings, contract, stage, where + "/floor");
  if (!floors || captures->corpus.empty()) return floors;
  return check_source({.uri = captures->corpus, .adapter = {}}, settings, where + "/corpus");
}

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

/// What is asked for is answered with the promotion as it is committed here.
schema::Result<void> note_promotion(store::Tx& tx, const store::PromotionRow& row, jobs::JobRunner& runner,
                                    std::int64_t now_us) {
  if (store::current_write_scope() == nullptr) return {};
  return note_made(tx, promotion_view(tx, row, runner, now_us));
}

schema::Result<void> note_model(store::Tx& tx, const std::string& name) {
  if (store::current_write_scope() == nullptr) return {};
  auto row = store::get_model(tx, name);
  if (!row) return std::unexpected(row.error());
  return note_made(tx, model_view(tx, *row));
}

schema::Result<void> check_driver(const route::Capabilities& can, const schema::Escalation& policy) {
  const auto lacks = [](const char* what) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("the data plane cannot do this: {}; a promotion needs it", what));
  };
  if (!can.basis_points) return lacks("weights in basis points");
  if (!can.sticky) return lacks("sticky keys");
  if (!can.mirror) return lacks("mirroring requests to the candidate");
  const bool slices = std::ranges::any_of(
      policy.rules, [](const auto& rule) { return rule.action == schema::Action::route_slice; });
  if (slices && !can.slice) return lacks("routes for slices");
  return {};
}

}  // namespace

/// Installs a model's first version at 100%, routed at once.
schema::Result<std::string> Core::create_model(const std::string& actor, const ModelRequest& request) {
  auto named = schema::check_name(request.name, "a model's name", "/name");
  if (!named) return std::unexpected(named.error());
  auto engine =
      world_.store.read([&](store::Reader& reader) { return store::find_engine(reader, request.engine); });
  if (!engine) return std::unexpected(engine.error());
  if (!*engine)
    return schema::fail(ErrorCode::not_found,
                        fmt::format("there is no engine {}; register it first", request.engine), "/engine");
  store::VersionRow version;
  version.id = new_id("ve");
  version.checkpoint = (*engine)->checkpoint;
  version.kernel = (*engine)->kernel;
  version.engine = (*engine)->name;
  version.base_url = (*engine)->base_url;
  version.created_us = now();
  store::ModelRow model;
  model.name = request.name;
  model.epoch = 1;
  model.lock_owner = world_.instance;
  model.created_us = model.updated_us = now();
  ModelState state;
  state.epoch = 1;
  auto done = commit("create model", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto ensured = store::ensure_version(tx, version);
    if (!ensured) return std::unexpected(ensured.error());
    version = *ensured;
    model.incumbent = version.id;
    auto inserted = store::insert_model(tx, model);
    if (!inserted) return inserted;
    schema::EntryDraft entry;
    entry.time_us = now();
    entry.kind = schema::EvidenceKind::model_bootstrapped;
    entry.actor = actor;
    entry.subject.model = request.name;
    if (!version.checkpoint.empty()) entry.subject.checkpoint = version.checkpoint;
    entry.body = {{"version", version.id},
                  {"engine", version.engine},
                  {"kernel", version.kernel},
                  {"url", version.base_url},
                  {"reason", request.reason},
                  {"claim", "none: installed without a promotion"}};
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    auto noted = store::set_model_evidence(tx, request.name, *seq);
    if (!noted) return noted;
    state.desired = {};
    state.desired.model = request.name;
    state.desired.epoch = 1;
    state.desired.revision = 1;
    state.desired.incumbent = arm(version);
    auto put = put_route(tx, entries, entry.subject, state.desired, "the model's first version");
    return put ? note_model(tx, request.name) : put;
  });
  if (!done) return std::unexpected(done.error());
  models_[request.name] = state;
  ensure_route(request.name);
  return request.name;
}

schema::Result<store::PromotionRow> Core::prepare(const std::string& actor, const PromotionRequest& request) {
  store::ContractRow contract_row;
  auto row = world_.store.read([&](store::Reader& reader) -> schema::Result<store::PromotionRow> {
    auto model = store::find_model(reader, request.model);
    if (!model) return std::unexpected(model.error());
    if (!*model) {
      return schema::fail(ErrorCode::conflict,
                          fmt::format("{} has no incumbent, so there is nothing to promote against. A "
                                      "model's first version is installed by "
                                      "`driftgate model create {} --engine E --reason …`",
                                      request.model, request.model),
                          "/model");
    }
    if ((*model)->hold) {
      return schema::fail(ErrorCode::conflict,
                          fmt::format("{} is on hold since a rollback: {}. An operator lifts it by "
                                      "`driftgate model lift-hold {} --reason …`",
                                      request.model, *(*model)->hold, request.model),
                          "/model");
    }
    auto engine = store::find_engine(reader, request.engine);
    if (!engine) return std::unexpected(engine.error());
    if (!*engine)
      return schema::fail(ErrorCode::not_found,
                          fmt::format("there is no engine {}; register it first", request.engine), "/engine");
    auto incumbent = store::find_version(reader, (*model)->incumbent);
    if (!incumbent) return std::unexpected(incumbent.error());
    if (*incumbent && (*incumbent)->engine == (*engine)->name &&
        (*incumbent)->base_url == (*engine)->base_url) {
      return schema::fail(
          ErrorCode::conflict,
          fmt::format("engine {} is the incumbent of {} already", request.engine, request.model), "/engine");
    }
    auto contract = find_contract(reader, request.contract);
    if (!contract) return std::unexpected(contract.error());
    contract_row = *contract;
    store::PromotionRow promotion;
    promotion.model = request.model;
    promotion.engine = request.engine;
    promotion.contract = contract->digest;
    promotion.request = to_json(request);
    promotion.requester = actor;
    return promotion;
  });
  if (!row) return row;
  auto report = schema::parse_stored_contract(contract_row.canonical, contract_row.name);
  if (!report.contract)
    return schema::fail(ErrorCode::corrupt, schema::format_faults(report.faults, contract_row.name));
  const auto& contract = *report.contract;
  auto engine =
      world_.store.read([&](store::Reader& reader) { return store::find_engine(reader, request.engine); });
  if (!engine || !*engine)
    return schema::fail(ErrorCode::not_found, fmt::format("there is no engine {}", request.engine),
                        "/engine");
  if (contract.inf_kernel != (*engine)->kernel) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("contract {} is for the kernel {}, engine {} serves {}", contract.name,
                                    contract.inf_kernel, request.engine, (*engine)->kernel),
                        "/contract");
  }
  if (!contract.canary) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("contract {} has no stages.canary, so nothing can be promoted under it", contract.name),
        "/contract");
  }
  auto driver = check_driver(world_.driver.capabilities(), contract.escalation);
  if (!driver) return std::unexpected(driver.error());
  auto numeric =
      check_captures(request.numeric, world_.settings, contract, schema::Stage::offline_numeric, "numeric");
  if (!numeric) return std::unexpected(numeric.error());
  auto slice =
      check_captures(request.slice, world_.settings, contract, schema::Stage::statistical_slice, "slice");
  if (!slice) return std::unexpected(slice.error());
  auto blocked = refuse_blocked((*engine)->checkpoint, (*engine)->kernel, row->contract);
  if (!blocked) return std::unexpected(blocked.error());
  auto fallback = find_fallback(*row, request);
  if (!fallback) return std::unexpected(fallback.error());
  return row;
}

/// Stores the request; queued ones of the same model are superseded; starts when nothing holds the model.
schema::Result<std::string> Core::request(const std::string& actor, const PromotionRequest& request,
                                          bool verified, const AlsoRequested& also) {
  auto prepared = prepare(actor, request);
  if (!prepared) return std::unexpected(prepared.error());
  auto row = *prepared;
  row.id = new_id("pr");
  row.seed = new_seed();
  row.created_us = row.updated_us = now();
  row.reason = "asked for";
  auto engine =
      world_.store.read([&](store::Reader& reader) { return store::find_engine(reader, request.engine); });
  if (!engine || !*engine)
    return schema::fail(ErrorCode::not_found, fmt::format("there is no engine {}", request.engine),
                        "/engine");
  store::VersionRow version;
  version.id = new_id("ve");
  version.checkpoint = (*engine)->checkpoint;
  version.kernel = (*engine)->kernel;
  version.engine = (*engine)->name;
  version.base_url = (*engine)->base_url;
  version.created_us = now();
  auto fallback = find_fallback(row, request);
  if (!fallback) return std::unexpected(fallback.error());
  auto done = commit("request promotion", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto ensured = store::ensure_version(tx, version);
    if (!ensured) return std::unexpected(ensured.error());
    version = *ensured;
    row.candidate = version.id;
    schema::EntryValue fallback_value = nullptr;
    if (*fallback) {
      auto kept = store::ensure_version(tx, version_of(**fallback, new_id("ve"), now()));
      if (!kept) return std::unexpected(kept.error());
      row.fallback = kept->id;
      fallback_value = schema::EntryValue::Object{
          {"version", kept->id}, {"engine", kept->engine}, {"kernel", kept->kernel}, {"url", kept->base_url}};
    }
    schema::EntryDraft entry;
    entry.time_us = now();
    entry.kind = schema::EvidenceKind::promotion_requested;
    entry.actor = actor;
    entry.subject = subject_of(row, version.checkpoint);
    entry.body = {{"engine", row.engine},
                  {"kernel", version.kernel},
                  {"candidate", row.candidate},
                  {"url", version.base_url},
                  {"seed", row.seed},
                  {"fallback", std::move(fallback_value)},
                  {"checkpoint_verified", verified},
                  {"request", entry_value(nlohmann::json::parse(row.request))}};
    auto kernel = store::find_kernel(tx, version.kernel);
    if (!kernel) return std::unexpected(kernel.error());
    if (*kernel) entry.body["kernel_digest"] = (*kernel)->digest;
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    row.evidence_seq = *seq;
    auto inserted = store::insert_promotion(tx, row);
    if (!inserted) return inserted;
    auto noted = note_promotion(tx, row, world_.runner, now());
    if (!noted || !also) return noted;
    return also(tx, entries, row);
  });
  if (!done) return std::unexpected(done.error());
  std::vector<std::string> older;
  for (const auto& [id, live] : live_) {
    if (live->row.model == row.model && live->row.state == PromotionState::queued) older.push_back(id);
  }
  auto live = std::make_unique<Live>();
  auto loaded = load(*live, row);
  live->row = row;
  if (!loaded) stumble(*live, loaded.error());
  live_[row.id] = std::move(live);
  for (const auto& id : older) {
    if (auto* queued = find(id)) {
      (void)withdraw(*queued, {.target = PromotionState::superseded,
                               .actor = actor,
                               .reason = fmt::format("{} is newer", row.id)});
    }
  }
  start_next(row.model);
  return row.id;
}

}  // namespace driftgate::pipeline
