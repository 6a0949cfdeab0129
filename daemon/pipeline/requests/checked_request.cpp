#include "daemon/pipeline/requests/checked_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "daemon/jobs/rooted_path.hpp"
#include "daemon/pipeline/people/people.hpp"
#include "daemon/pipeline/requests/ability_gaps.hpp"
#include "daemon/pipeline/requests/data_plane.hpp"
#include "daemon/pipeline/requests/fallback.hpp"
#include "daemon/pipeline/requests/wrong_captures.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/versions.hpp"
#include "schema/contract/stored_contract.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;

/// All that speaks against a request, in the order in which it was looked for.
class Faults {
 public:
  template <typename T>
  void note(const schema::Result<T>& looked) {
    if (!looked) all.push_back(looked.error());
  }
  void note(const std::unexpected<schema::Error>& fault) { all.push_back(fault.error()); }
  std::vector<schema::Error> all{};
};

/// The floors that were given, and the first clause of the stage that needs one that was not.
void check_floors(const StageCaptures& captures, const Settings& settings, const schema::Contract& contract,
                  schema::Stage stage, const std::string& where, Faults& faults) {
  for (const auto& [floor, name] :
       {std::pair{&captures.floor_train, "train"}, {&captures.floor_inf, "inf"}}) {
    if (!*floor) continue;
    faults.note(check_source((*floor)->second, settings, where + "/" + name));
    if (!(*floor)->first) continue;
    faults.note(check_source(*(*floor)->first, settings, where + "/" + name));
  }
  faults.note(find_missing_floor(captures, contract, stage, where));
}

void check_captures(const std::optional<StageCaptures>& captures, const Settings& settings,
                    const CheckedRequest& checked, schema::Stage stage, Faults& faults) {
  const auto& contract = *checked.contract;
  const std::string name = stage == schema::Stage::offline_numeric ? "numeric" : "slice";
  const auto where = "/captures/" + name;
  if (!captures) {
    if (!demands(contract, stage)) return;
    faults.note(schema::fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "the contract has clauses for {}, so captures.{} is needed: {{\"train\", \"inf\", \"corpus\"}}",
            schema::to_string(stage), name),
        where));
    return;
  }
  faults.note(check_source(captures->train, settings, where + "/train"));
  faults.note(check_source(captures->inf, settings, where + "/inf"));
  check_floors(*captures, settings, contract, stage, where + "/floor", faults);
  if (!captures->corpus.empty())
    faults.note(check_source({.uri = captures->corpus, .adapter = {}}, settings, where + "/corpus"));
  for (auto& wrong : wrong_captures(*captures, settings, contract, checked.engine.checkpoint, where))
    faults.all.push_back(std::move(wrong));
}

schema::Result<store::EngineRow> candidate_engine(store::Reader& reader, const PromotionRequest& request) {
  auto engine = TRY(store::find_engine(reader, request.engine));
  if (!engine) return unregistered("engine", request.engine, "/engine");
  return *engine;
}

/// The candidate must not be what serves the model already.
schema::Result<void> refuse_incumbent(store::Reader& reader, const store::ModelRow& model,
                                      const store::EngineRow& engine) {
  auto incumbent = TRY(store::find_version(reader, model.incumbent));
  if (!incumbent || incumbent->engine != engine.name || incumbent->base_url != engine.base_url) return {};
  return schema::fail(ErrorCode::conflict,
                      fmt::format("engine {} is the incumbent of {} already", engine.name, model.name),
                      "/engine");
}

schema::Result<store::ModelRow> model_with_incumbent(store::Reader& reader, const std::string& name) {
  auto model = TRY(store::find_model(reader, name));
  if (model) return *model;
  return schema::fail(ErrorCode::conflict,
                      fmt::format("{} has no incumbent, so there is nothing to promote against. A "
                                  "model's first version is installed by "
                                  "`driftgate model create {} --engine E --reason …`",
                                  name, name),
                      "/model");
}

schema::Result<void> refuse_held(const store::ModelRow& model) {
  if (!model.hold) return {};
  return schema::fail(ErrorCode::conflict,
                      fmt::format("{} is on hold since a rollback: {}. An operator lifts it by "
                                  "`driftgate model lift-hold {} --reason …`",
                                  model.name, *model.hold, model.name),
                      "/model");
}

/// Whether the contract is one for this kernel, with a canary that the data plane can do.
schema::Result<void> check_contract(const schema::Contract& contract, const store::EngineRow& engine,
                                    const route::Capabilities& data_plane) {
  if (contract.inf_kernel != engine.kernel) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("contract {} is for the kernel {}, engine {} serves {}", contract.name,
                                    contract.inf_kernel, engine.name, engine.kernel),
                        "/contract");
  }
  if (!contract.canary) {
    return schema::fail(
        ErrorCode::invalid_argument,
        fmt::format("contract {} has no stages.canary, so nothing can be promoted under it", contract.name),
        "/contract");
  }
  return check_data_plane(data_plane, contract);
}

/// What the store answers to a request, all of one snapshot. What may pass (a hold, a block) and which engine
/// is the fallback are told after the checks of files, which need no store.
struct Snapshot {
  CheckedRequest checked;
  schema::Result<void> free{};       ///< of a hold
  schema::Result<void> other{};      ///< than the incumbent
  schema::Result<void> reachable{};  ///< by the data plane: candidate and fallback
  schema::Result<void> unblocked{};
  schema::Result<std::optional<store::EngineRow>> fallback{};
};

schema::Result<Snapshot> read_snapshot(store::Reader& reader, const std::string& actor,
                                       const PromotionRequest& request,
                                       const route::Capabilities& data_plane) {
  auto model = TRY(model_with_incumbent(reader, request.model));
  auto engine = TRY(candidate_engine(reader, request));
  auto stored = TRY(named_contract(reader, request.contract));
  auto contract = TRY(parse_contract_row(stored));
  Snapshot snapshot{.checked = {.row = {},
                                .request = request,
                                .contract_name = stored.name,
                                .contract = std::move(contract),
                                .engine = std::move(engine)}};
  auto& row = snapshot.checked.row;
  row.model = request.model;
  row.engine = request.engine;
  row.contract = stored.digest;
  row.request = to_json(request);
  row.requester = actor;
  const auto& candidate = snapshot.checked.engine;
  auto gaps = TRY(find_ability_gaps(reader, *snapshot.checked.contract, model, candidate));
  snapshot.checked.gaps = std::move(gaps);
  snapshot.free = refuse_held(model);
  snapshot.other = refuse_incumbent(reader, model, candidate);
  snapshot.unblocked = people::refuse_blocked(reader, candidate.checkpoint, candidate.kernel, row.contract);
  snapshot.fallback =
      resolve_fallback(reader, *snapshot.checked.contract, request.fallback_engine, candidate);
  snapshot.reachable = check_engine_access(data_plane, reader, candidate, "/engine");
  if (snapshot.reachable && snapshot.fallback && *snapshot.fallback)
    snapshot.reachable = check_engine_access(data_plane, reader, **snapshot.fallback, "/fallback_engine");
  return snapshot;
}

struct Judged {
  CheckedRequest checked;
  Faults faults{};
};

/// A request with all that speaks against it. An error where what it names is not there: then there is
/// nothing to look at.
schema::Result<Judged> judge(store::Store& store, const Settings& settings,
                             const route::Capabilities& data_plane, const std::string& actor,
                             const PromotionRequest& request) {
  auto snapshot = TRY(look_up(store, read_snapshot, actor, request, data_plane));
  const auto& contract = *snapshot.checked.contract;
  Faults faults;
  faults.note(snapshot.other);
  faults.note(check_contract(contract, snapshot.checked.engine, data_plane));
  faults.note(snapshot.reachable);
  check_captures(request.numeric, settings, snapshot.checked, schema::Stage::offline_numeric, faults);
  check_captures(request.slice, settings, snapshot.checked, schema::Stage::statistical_slice, faults);
  faults.note(snapshot.free);
  faults.note(snapshot.unblocked);
  faults.note(snapshot.fallback);
  if (snapshot.fallback) snapshot.checked.fallback = std::move(*snapshot.fallback);
  return Judged{std::move(snapshot.checked), std::move(faults)};
}

}  // namespace

schema::Result<store::ContractRow> named_contract(store::Reader& reader, const std::string& name) {
  auto found = TRY(name.starts_with("sha256:") ? store::find_contract(reader, name)
                                               : store::find_contract_by_name(reader, name));
  if (!found) return unregistered("contract", name, "/contract");
  return *found;
}

schema::Result<void> check_source(const CaptureSource& source, const Settings& settings,
                                  const std::string& where) {
  if (!source.adapter.empty()) {
    if (settings.adapters.contains(source.adapter)) return {};
    const auto names = fmt::format("{}", fmt::join(std::views::keys(settings.adapters), ", "));
    return schema::fail(ErrorCode::not_found,
                        fmt::format("there is no adapter '{}' in the settings; there are: {}", source.adapter,
                                    names.empty() ? "none" : names),
                        where);
  }
  TRY(about(where, jobs::open_below(source.uri, settings.roots)));
  return {};
}

schema::Result<void> find_missing_floor(const StageCaptures& captures, const schema::Contract& contract,
                                        schema::Stage stage, const std::string& where) {
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

bool demands(const schema::Contract& contract, schema::Stage stage) {
  return std::ranges::any_of(contract.clauses, [&](const schema::Clause& clause) {
    return (clause.stages & schema::stage_bit(stage)) != 0;
  });
}

schema::Result<std::shared_ptr<const schema::Contract>> parse_contract_row(const store::ContractRow& row) {
  auto report = schema::parse_stored_contract(row.canonical, row.name);
  if (!report.contract) {
    return schema::fail(ErrorCode::corrupt,
                        fmt::format("the stored contract {} cannot be read: {}", row.digest,
                                    schema::format_faults(report.faults, row.name)));
  }
  return std::make_shared<const schema::Contract>(std::move(*report.contract));
}

schema::Result<store::ModelRow> promotable_model(store::Reader& reader, const std::string& name) {
  auto model = TRY(model_with_incumbent(reader, name));
  TRY(refuse_held(model));
  return model;
}

schema::Result<CheckedRequest> check_request(store::Store& store, const Settings& settings,
                                             const route::Capabilities& data_plane, const std::string& actor,
                                             const PromotionRequest& request) {
  auto judged = TRY(judge(store, settings, data_plane, actor, request));
  if (!judged.faults.all.empty()) return std::unexpected(std::move(judged.faults.all.front()));
  return std::move(judged.checked);
}

schema::Result<std::vector<schema::Error>> find_faults(store::Store& store, const Settings& settings,
                                                       const route::Capabilities& data_plane,
                                                       const std::string& actor,
                                                       const PromotionRequest& request) {
  auto judged = TRY(judge(store, settings, data_plane, actor, request));
  if (!request.accept_undecidable) judged.faults.note(refuse_ability_gaps(judged.checked.gaps));
  return std::move(judged.faults.all);
}

}  // namespace driftgate::pipeline
