#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/jobs/rooted_path.hpp"
#include "daemon/jobs/worker.hpp"
#include "daemon/pipeline/stages/drift_tables.hpp"
#include "daemon/pipeline/stages/jobs.hpp"
#include "daemon/pipeline/stages/report_json.hpp"
#include "daemon/pipeline/stages/step.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/look_up.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "daemon/store/registry/engines.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "stages/offline_numeric.hpp"
#include "stages/statistical_slice.hpp"

namespace driftgate::pipeline {
namespace {

using schema::ErrorCode;
using schema::Stage;

constexpr std::uint32_t kWorstRows = 20;
/// Jobs whose folders hold captures.
constexpr const char* kCaptureJobs[] = {"capture-train",         "capture-inf",
                                        "capture-floor-train-1", "capture-floor-train-2",
                                        "capture-floor-inf-1",   "capture-floor-inf-2"};

constexpr const char* kFloorTrain = "the train floor's captures";
constexpr const char* kFloorInf = "the inf floor's captures";

const std::optional<StageCaptures>& captures_of(const PromotionRequest& request, const std::string& stage) {
  return stage == schema::to_string(Stage::offline_numeric) ? request.numeric : request.slice;
}

using Marks = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// A word of an adapter's argv with its marks filled in. Names are checked when they are registered; one of
/// an older data folder must not become an option of the program or put control characters into its argv
/// either.
schema::Result<std::string> filled(const std::string& pattern, Marks marks) {
  std::string word = pattern;
  bool control = false;
  for (const auto& [mark, value] : marks) {
    if (!pattern.contains(mark)) continue;
    control = control || std::ranges::any_of(
                             value, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    boost::replace_all(word, mark, value);
  }
  const bool option = word.starts_with('-') && !pattern.starts_with('-');
  if (!option && !control) return word;
  return schema::fail(
      ErrorCode::invalid_argument,
      fmt::format(
          "'{}' of the adapter's argv becomes {}: register the kernel, engine or model under a name of "
          "letters, digits and ._:@+-/",
          pattern, option ? "an option of the program" : "a word with control characters"));
}

StageConclusion evaluate(const LoadedTables& tables, const schema::Contract& contract, Stage stage,
                         stages::StageInputs inputs) {
  inputs.floors = tables.floors();
  const auto& table = tables.drift.table;
  StageConclusion conclusion;
  conclusion.report = stage == Stage::offline_numeric
                          ? stages::evaluate_offline_numeric(contract, table, inputs)
                          : stages::evaluate_statistical_slice(contract, table, inputs);
  conclusion.report_json = report_json(conclusion.report, &table, contract, inputs.floors);
  conclusion.inputs_digest = tables.drift.digest;
  conclusion.run = inputs.attempt;
  conclusion.table = tables.drift.bytes;
  for (const auto* floor : {&tables.floor_train, &tables.floor_inf}) {
    if (*floor) conclusion.floor_tables.push_back((*floor)->bytes);
  }
  return conclusion;
}

/// Of what is measured, and of the rules that it is decided by: under other rules nothing stored is reused.
/// Version 1 is not named, since runs of it were stored before there were versions.
std::string inputs_digest(const jobs::JobResult& drift) {
  auto digests = nlohmann::json(drift.digests);
  for (const char* made : {"table", "floor_train", "floor_inf"}) digests.erase(made);
  if constexpr (schema::kCurrentRules != schema::kFirstRules) digests["rules"] = schema::kCurrentRules;
  return schema::document_digest(schema::canonical_json(digests));
}

/// The stage was given no captures: the contract has no clause for it.
StageConclusion nothing_demanded(const Live& live, Stage stage) {
  StageConclusion conclusion;
  conclusion.report.stage = stage;
  conclusion.report.verdict = schema::Verdict::pass;
  conclusion.report.nothing_demanded = true;
  conclusion.report.notes.emplace_back(
      "Nothing demanded: no clause is decided here and no captures were given.");
  conclusion.report_json = report_json(conclusion.report, nullptr, *live.contract);
  return conclusion;
}

/// The verdicts and the report of an earlier run on the same inputs; nothing when it has none that can be
/// reused. The report has every verdict; a row of a clause and slice only the one that decides.
std::optional<StageConclusion> reused(const std::string& report, Stage stage, const store::StageKey& earlier,
                                      std::uint32_t k) {
  const auto stored = nlohmann::json::parse(report, nullptr, false);
  if (!stored.is_object()) return std::nullopt;
  StageConclusion conclusion;
  conclusion.report_json = report;
  const auto verdict = schema::verdict_from_name(stored.value("verdict", ""));
  if (!verdict) return std::nullopt;
  for (const auto& item : stored.value("verdicts", nlohmann::json::array())) {
    auto clause = schema::clause_verdict_from_json(item.dump());
    if (!clause) return std::nullopt;
    conclusion.report.clauses.push_back(std::move(*clause));
  }
  conclusion.report.rules = stored.value("rules", schema::kFirstRules);
  if (!stages::decides_by(conclusion.report.rules)) return std::nullopt;
  conclusion.report.verdict = *verdict;
  conclusion.report.stage = stage;
  conclusion.report.notes.push_back(
      fmt::format("The same captures were measured in {} (run {} of this contract); its verdicts stand and "
                  "no α is spent.",
                  earlier.text(), k));
  conclusion.inputs_digest = stored.value("table_digest", "");
  conclusion.run = k;
  conclusion.report.alpha = schema::number_from_json(stored.value("alpha", nlohmann::json())).value_or(0);
  conclusion.report.code_version = stored.value("code_version", "");
  conclusion.report.seed = std::strtoull(stored.value("seed", "0").c_str(), nullptr, 16);
  return conclusion;
}

/// One look at a stage of fixed data.
class FixedStage {
 public:
  FixedStage(Context& context, const Live& live)
      : context_(context), live_(live), stage_(*schema::stage_from_name(live.run.key.stage)) {}

  StageStep step() {
    auto request = parse_promotion_request(live_.row.request);
    if (!request) return AttemptFailed{request.error(), "the stored request"};
    const auto& captures = captures_of(*request, live_.run.key.stage);
    if (!captures) return nothing_demanded(live_, stage_);
    auto train = capture_path(*captures, captures->train, kCaptureJobs[0], "the train capture");
    if (!train) return AttemptFailed{train.error(), "the train capture"};
    auto inf = capture_path(*captures, captures->inf, kCaptureJobs[1], "the inf capture");
    if (!inf) return AttemptFailed{inf.error(), "the inf capture"};
    if (!*train || !*inf) return std::move(jobs_);  // a job's end comes back here
    const auto& settings = context_.world.settings;
    jobs::DriftPayload payload{
        .train = **train,
        .inf = **inf,
        .corpus = captures->corpus,
        .contract = live_.contract->canonical_json,
        .roots = settings.roots,
        .threads = settings.job_threads,
        .worst_rows = kWorstRows,
        .device = settings.job_device,
        .shard = settings.job_shard,
        .captures_of = jobs::CapturesOf{live_.contract->train_kernel, live_.contract->inf_kernel,
                                        live_.candidate.checkpoint}};
    auto floor_train =
        floor_pair(*captures, captures->floor_train, **train, stages::FloorSide::train, payload.floor_train);
    if (!floor_train) return AttemptFailed{floor_train.error(), kFloorTrain};
    auto floor_inf =
        floor_pair(*captures, captures->floor_inf, **inf, stages::FloorSide::inf, payload.floor_inf);
    if (!floor_inf) return AttemptFailed{floor_inf.error(), kFloorInf};
    if (!*floor_train || !*floor_inf) return std::move(jobs_);
    for (const char* name : kCaptureJobs) {
      const auto at = folders_.find(name);
      payload.roots.push_back(
          at != folders_.end() ? at->second : context_.world.runner.folder(job_key(live_.run.key, name)));
    }
    return measure(payload);
  }

 private:
  StageStep measure(const jobs::DriftPayload& payload) {
    auto drift = look_at_job(context_, live_, "drift", jobs::JobKind::drift,
                             context_.world.settings.drift_limits, jobs::to_json(payload));
    if (!drift) return Retry{drift.error()};
    if (!drift->result) {
      dispatch(jobs_, *drift, {});
      return std::move(jobs_);
    }
    if (!drift->result->ok)
      return AttemptFailed{drift->result->error.value_or(schema::Error{}), "measuring drift"};
    return decide_on(*drift->result, drift->row.dir);
  }

  /// The path of a capture; nothing while its adapter runs.
  schema::Result<std::optional<std::string>> capture_path(const StageCaptures& captures,
                                                          const CaptureSource& source, const char* name,
                                                          const std::string& what) {
    if (source.adapter.empty()) return std::optional(source.uri);
    const auto& adapters = context_.world.settings.adapters;
    const auto adapter = adapters.find(source.adapter);
    if (adapter == adapters.end()) {
      return schema::fail(ErrorCode::not_found,
                          fmt::format("there is no adapter '{}' in the settings", source.adapter));
    }
    auto argv = TRY(adapter_argv(adapter->second, captures));
    const jobs::CapturePayload payload{source.adapter, std::move(argv)};
    auto job = TRY(look_at_job(context_, live_, name, jobs::JobKind::capture, adapter->second.limits,
                               jobs::to_json(payload)));
    folders_[name] = job.row.dir;
    if (!job.result) {
      dispatch(jobs_, job, what);
      return std::optional<std::string>();
    }
    if (!job.result->ok) return std::unexpected(job.result->error.value_or(schema::Error{}));
    return std::optional(job.row.dir + "/" + jobs::kCaptureFile);
  }

  /// The two captures of a floor; false while an adapter runs. True with nothing found: none was requested.
  schema::Result<bool> floor_pair(const StageCaptures& captures, const std::optional<FloorCaptures>& asked,
                                  const std::string& own, stages::FloorSide side,
                                  std::optional<jobs::DriftPayload::FloorPair>& found) {
    if (!asked) return true;
    const bool train = side == stages::FloorSide::train;
    const auto* const what = train ? kFloorTrain : kFloorInf;
    std::optional<std::string> first = own;
    if (asked->first) {
      auto path = TRY(capture_path(captures, *asked->first, train ? kCaptureJobs[2] : kCaptureJobs[4], what));
      first = path;
    }
    auto second = TRY(capture_path(captures, asked->second, train ? kCaptureJobs[3] : kCaptureJobs[5], what));
    if (!first || !second) return false;
    found = jobs::DriftPayload::FloorPair{*first, *second};
    return true;
  }

  /// The candidate's engine, read at most once for a look.
  schema::Result<store::EngineRow> engine() {
    if (engine_) return *engine_;
    auto row = TRY(look_up(context_.world.store, store::find_engine, live_.row.engine));
    if (!row)
      return schema::fail(ErrorCode::not_found, fmt::format("there is no engine {}", live_.row.engine));
    engine_ = std::move(*row);
    return *engine_;
  }

  schema::Result<std::vector<std::string>> adapter_argv(const Adapter& adapter,
                                                        const StageCaptures& captures) {
    auto row = TRY(engine());
    const auto path = [&](const std::string& uri) -> schema::Result<std::string> {
      return uri.empty() ? std::string() : jobs::resolve_below(uri, context_.world.settings.roots);
    };
    auto corpus = TRY(path(captures.corpus));
    auto train = TRY(path(captures.train.uri));
    auto checkpoint = TRY(path(row.checkpoint_uri));
    const auto access = TRY(look_up(context_.world.store, store::access_at, row.base_url));
    std::vector<std::string> argv;
    for (const auto& pattern : adapter.argv) {
      auto word = TRY(filled(pattern, {{"{corpus}", corpus},
                                       {"{train}", train},
                                       {"{checkpoint}", checkpoint},
                                       {"{engine_url}", row.base_url},
                                       {"{engine_key_file}", access.key_file},
                                       {"{engine_ca_file}", access.ca_file},
                                       {"{kernel}", row.kernel},
                                       {"{model}", live_.row.model}}));
      argv.push_back(std::move(word));
    }
    return argv;
  }

  /// The same inputs again give the stored verdicts; others are checked, and decided on once α is spent.
  StageStep decide_on(const jobs::JobResult& drift, const std::string& folder) {
    const auto digest = inputs_digest(drift);
    const auto key = context_.spending_key(live_);
    if (!key) return Retry{key.error()};
    const auto spent = look_up(context_.world.store, store::find_spent, *key, digest);
    if (!spent) return Retry{spent.error()};
    if (*spent && (*spent)->run != live_.run.key) {
      if (auto earlier = reuse(**spent)) return std::move(*earlier);
    }
    return Change{.effects = {Evaluate{live_.run.key, "the measurement", digest,
                                       preparation(table_files(drift, folder))}}};
  }

  std::function<schema::Result<Tests>()> preparation(const TableFiles& files) const {
    const stages::StageInputs inputs{
        .alpha = std::nullopt, .seed = live_.row.seed, .code_version = context_.world.settings.code_version};
    return [files, inputs, stage = stage_, contract = live_.contract,
            checkpoint = live_.candidate.checkpoint]() -> schema::Result<Tests> {
      auto read = TRY(read_tables(files, *contract, checkpoint));
      return [tables = std::make_shared<const LoadedTables>(std::move(read)), inputs, stage,
              contract](std::uint32_t k) {
        auto of_run = inputs;
        of_run.attempt = k;
        return evaluate(*tables, *contract, stage, of_run);
      };
    };
  }

  std::optional<StageConclusion> reuse(const store::SpendingRow& spent) {
    std::string report;
    auto read = context_.world.store.read([&](store::Reader& reader) -> schema::Result<void> {
      auto run = TRY(store::find_stage_run(reader, spent.run));
      if (!run || run->report.empty()) return {};
      auto blob = TRY(store::find_blob(reader, run->report));
      if (blob) report = blob->bytes;
      return {};
    });
    if (!read || report.empty()) return std::nullopt;
    return reused(report, stage_, spent.run, static_cast<std::uint32_t>(spent.k));
  }

  Context& context_;
  const Live& live_;
  Stage stage_;
  Change jobs_;                                              ///< that are dispatched by this look
  std::map<std::string, std::string, std::less<>> folders_;  ///< of the capture jobs, by name
  std::optional<store::EngineRow> engine_;
};

}  // namespace

StageStep fixed_step(Context& context, const Live& live) {
  if (live.evaluating) return Wait{};
  return FixedStage(context, live).step();
}

}  // namespace driftgate::pipeline
