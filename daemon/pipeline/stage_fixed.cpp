#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "daemon/jobs/rooted_path.hpp"
#include "daemon/jobs/worker.hpp"
#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/drift_tables.hpp"
#include "daemon/pipeline/report_json.hpp"
#include "daemon/pipeline/spending_key.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/promotions/spending.hpp"
#include "daemon/store/registry/kernels.hpp"
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

const std::optional<StageCaptures>& captures_of(const PromotionRequest& request, const std::string& stage) {
  return stage == schema::to_string(Stage::offline_numeric) ? request.numeric : request.slice;
}

std::string replaced(std::string word, std::string_view from, const std::string& to) {
  for (std::size_t at = word.find(from); at != std::string::npos; at = word.find(from, at + to.size())) {
    word.replace(at, from.size(), to);
  }
  return word;
}

using Marks = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// A word of an adapter's argv with its marks filled in. Names are checked when they are registered; one of an older
/// data folder must not become an option of the program or put control characters into its argv either.
schema::Result<std::string> filled(const std::string& pattern, Marks marks) {
  std::string word = pattern;
  bool control = false;
  for (const auto& [mark, value] : marks) {
    if (!pattern.contains(mark)) continue;
    control = control || std::ranges::any_of(
                             value, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    word = replaced(std::move(word), mark, std::string(value));
  }
  const bool option = word.starts_with('-') && !pattern.starts_with('-');
  if (!option && !control) return word;
  return schema::fail(
      ErrorCode::invalid_argument,
      fmt::format("'{}' of the adapter's argv becomes {}: register the kernel, engine or model under a name of "
                  "letters, digits and ._:@+-/",
                  pattern, option ? "an option of the program" : "a word with control characters"));
}

/// What an evaluation beside the loop gives back.
struct Evaluated {
  StageConclusion conclusion;
  std::optional<schema::Error> error;
};

Evaluated evaluate(const TableFiles& files, const schema::Contract& contract, const std::string& checkpoint,
                   Stage stage, stages::StageInputs inputs) {
  Evaluated done;
  auto tables = read_tables(files, contract, checkpoint);
  if (!tables) return {.conclusion = {}, .error = tables.error()};
  inputs.floors = tables->floors();
  const auto& table = tables->drift.table;
  done.conclusion.report = stage == Stage::offline_numeric
                               ? stages::evaluate_offline_numeric(contract, table, inputs)
                               : stages::evaluate_statistical_slice(contract, table, inputs);
  done.conclusion.report_json = report_json(done.conclusion.report, &table, contract, inputs.floors);
  done.conclusion.inputs_digest = files.drift.digest;
  done.conclusion.run = inputs.attempt;
  done.conclusion.table = std::move(tables->drift.bytes);
  for (auto* floor : {&tables->floor_train, &tables->floor_inf}) {
    if (*floor) done.conclusion.floor_tables.push_back(std::move((*floor)->bytes));
  }
  return done;
}

/// Of what is measured, and of the rules that it is decided by: under other rules nothing stored is reused.
/// Version 1 is not named, since runs of it were stored before there were versions.
std::string inputs_digest(const jobs::JobResult& drift) {
  auto digests = nlohmann::json(drift.digests);
  for (const char* made : {"table", "floor_train", "floor_inf"}) digests.erase(made);
  if constexpr (schema::kCurrentRules != schema::kFirstRules) digests["rules"] = schema::kCurrentRules;
  return schema::document_digest(schema::canonical_json(digests));
}

}  // namespace

/// One step of a fixed-data stage, from what is stored: captures, then drift, then the decision.
void Core::run_fixed(Live& live) {
  if (live.evaluating) return;
  auto request = parse_promotion_request(live.row.request);
  if (!request) return fail_stage(live, request.error(), "the stored request");
  const auto& captures = captures_of(*request, live.run.key.stage);
  if (!captures) {
    StageConclusion conclusion;
    conclusion.report.stage = *schema::stage_from_name(live.run.key.stage);
    conclusion.report.verdict = schema::Verdict::pass;
    conclusion.report.nothing_demanded = true;
    conclusion.report.notes.emplace_back(
        "Nothing demanded: no clause is decided here and no captures were given.");
    conclusion.report_json = report_json(conclusion.report, nullptr, *live.contract);
    return finish_stage(live, conclusion);
  }
  auto train = capture_path(live, *captures, captures->train, "capture-train");
  if (!train) return fail_stage(live, train.error(), "the train capture");
  auto inf = capture_path(live, *captures, captures->inf, "capture-inf");
  if (!inf) return fail_stage(live, inf.error(), "the inf capture");
  if (!*train || !*inf) return;  // a job's end comes back here
  jobs::DriftPayload payload{.train = **train,
                             .inf = **inf,
                             .corpus = captures->corpus,
                             .contract = live.contract->canonical_json,
                             .roots = world_.settings.roots,
                             .threads = world_.settings.job_threads,
                             .worst_rows = kWorstRows};
  auto floor_train = floor_pair(live, *captures, captures->floor_train, **train, stages::FloorSide::train,
                                payload.floor_train);
  if (!floor_train) return fail_stage(live, floor_train.error(), "the train floor's captures");
  auto floor_inf =
      floor_pair(live, *captures, captures->floor_inf, **inf, stages::FloorSide::inf, payload.floor_inf);
  if (!floor_inf) return fail_stage(live, floor_inf.error(), "the inf floor's captures");
  if (!*floor_train || !*floor_inf) return;
  for (const char* name : kCaptureJobs)
    payload.roots.push_back(world_.runner.folder(job_key(live.run.key, name)));
  auto drift =
      ensure_job(live, "drift", jobs::JobKind::drift, world_.settings.drift_limits, jobs::to_json(payload));
  if (!drift) return stumble(live, drift.error());
  if (!*drift) return;
  if (!(*drift)->ok) return fail_stage(live, (*drift)->error.value_or(schema::Error{}), "measuring drift");
  evaluate_fixed(live, **drift);
}

/// The path of a capture; nothing while its adapter runs.
schema::Result<std::optional<std::string>> Core::capture_path(Live& live, const StageCaptures& captures,
                                                              const CaptureSource& source, const char* name) {
  if (source.adapter.empty()) return std::optional(source.uri);
  const auto adapter = world_.settings.adapters.find(source.adapter);
  if (adapter == world_.settings.adapters.end()) {
    return schema::fail(ErrorCode::not_found,
                        fmt::format("there is no adapter '{}' in the settings", source.adapter));
  }
  auto argv = adapter_argv(live, adapter->second, captures);
  if (!argv) return std::unexpected(argv.error());
  const jobs::CapturePayload payload{source.adapter, std::move(*argv)};
  auto done = ensure_job(live, name, jobs::JobKind::capture, adapter->second.limits, jobs::to_json(payload));
  if (!done) return std::unexpected(done.error());
  if (!*done) return std::optional<std::string>();
  if (!(*done)->ok) return std::unexpected((*done)->error.value_or(schema::Error{}));
  return std::optional(world_.runner.folder(job_key(live.run.key, name)) + "/" + jobs::kCaptureFile);
}

/// The two captures of a floor; false while an adapter runs. True with nothing found: none was asked for.
schema::Result<bool> Core::floor_pair(Live& live, const StageCaptures& captures,
                                      const std::optional<FloorCaptures>& asked, const std::string& own,
                                      stages::FloorSide side,
                                      std::optional<jobs::DriftPayload::FloorPair>& found) {
  if (!asked) return true;
  const bool train = side == stages::FloorSide::train;
  std::optional<std::string> first = own;
  if (asked->first) {
    auto path = capture_path(live, captures, *asked->first, train ? kCaptureJobs[2] : kCaptureJobs[4]);
    if (!path) return std::unexpected(path.error());
    first = *path;
  }
  auto second = capture_path(live, captures, asked->second, train ? kCaptureJobs[3] : kCaptureJobs[5]);
  if (!second) return std::unexpected(second.error());
  if (!first || !*second) return false;
  found = jobs::DriftPayload::FloorPair{*first, **second};
  return true;
}

schema::Result<std::vector<std::string>> Core::adapter_argv(Live& live, const Adapter& adapter,
                                                            const StageCaptures& captures) {
  auto engine =
      world_.store.read([&](store::Reader& reader) { return store::find_engine(reader, live.row.engine); });
  if (!engine) return std::unexpected(engine.error());
  if (!*engine)
    return schema::fail(ErrorCode::not_found, fmt::format("there is no engine {}", live.row.engine));
  const auto path = [&](const std::string& uri) -> schema::Result<std::string> {
    return uri.empty() ? std::string() : jobs::resolve_below(uri, world_.settings.roots);
  };
  auto corpus = path(captures.corpus);
  if (!corpus) return std::unexpected(corpus.error());
  auto train = path(captures.train.uri);
  if (!train) return std::unexpected(train.error());
  auto checkpoint = path((*engine)->checkpoint_uri);
  if (!checkpoint) return std::unexpected(checkpoint.error());
  std::vector<std::string> argv;
  for (const auto& pattern : adapter.argv) {
    auto word = filled(pattern, {{"{corpus}", *corpus},
                                 {"{train}", *train},
                                 {"{checkpoint}", *checkpoint},
                                 {"{engine_url}", (*engine)->base_url},
                                 {"{kernel}", (*engine)->kernel},
                                 {"{model}", live.row.model}});
    if (!word) return std::unexpected(word.error());
    argv.push_back(std::move(*word));
  }
  return argv;
}

/// Spends α for these inputs, then decides beside the loop. The same inputs again give the stored verdicts.
void Core::evaluate_fixed(Live& live, const jobs::JobResult& drift) {
  auto key = spending_key(world_.store, live.candidate, live.row.contract, live.run.key.stage);
  if (!key) return stumble(live, key.error());
  store::Spent spent;
  auto done = commit("spend alpha", [&](store::Tx& tx, Entries&) -> schema::Result<void> {
    auto found = store::spend(tx, *key, inputs_digest(drift), live.run.key, now());
    if (!found) return std::unexpected(found.error());
    spent = *found;
    return {};
  });
  if (!done) return stumble(live, done.error());
  const auto k = static_cast<std::uint32_t>(spent.row.k);
  if (spent.row.run != live.run.key && reuse_verdicts(live, spent.row.run, k)) return;
  const auto stage = *schema::stage_from_name(live.run.key.stage);
  const auto files = table_files(drift, world_.runner.folder(job_key(live.run.key, "drift")));
  const stages::StageInputs inputs{.attempt = k,
                                   .alpha = std::nullopt,
                                   .seed = live.row.seed,
                                   .code_version = world_.settings.code_version};
  auto result = std::make_shared<Evaluated>();
  live.evaluating = true;
  world_.offload(
      [result, files, stage, inputs, contract = live.contract, checkpoint = live.candidate.checkpoint] {
        *result = evaluate(files, *contract, checkpoint, stage, inputs);
      },
      [this, result, run = live.run.key] {
        auto* found = find(run.promotion);
        if (found == nullptr) return;
        found->evaluating = false;
        if (found->run.key != run || found->row.state != store::PromotionState::running) return;
        if (result->error) return fail_stage(*found, *result->error, "the measurement");
        finish_stage(*found, result->conclusion);
      });
}

/// Copies the verdicts and the report of an earlier run on the same inputs; false when it has none. The
/// report has every verdict; a row of a clause and slice only the one that decides.
bool Core::reuse_verdicts(Live& live, const store::StageKey& earlier, std::uint32_t k) {
  StageConclusion conclusion;
  auto read = world_.store.read([&](store::Reader& reader) -> schema::Result<void> {
    auto run = store::find_stage_run(reader, earlier);
    if (!run) return std::unexpected(run.error());
    if (!*run || (*run)->report.empty()) return {};
    auto blob = store::find_blob(reader, (*run)->report);
    if (!blob) return std::unexpected(blob.error());
    if (*blob) conclusion.report_json = (*blob)->bytes;
    return {};
  });
  if (!read || conclusion.report_json.empty()) return false;
  const auto stored = nlohmann::json::parse(conclusion.report_json, nullptr, false);
  if (!stored.is_object()) return false;
  const auto verdict = schema::verdict_from_name(stored.value("verdict", ""));
  if (!verdict) return false;
  for (const auto& item : stored.value("verdicts", nlohmann::json::array())) {
    auto clause = schema::clause_verdict_from_json(item.dump());
    if (!clause) return false;
    conclusion.report.clauses.push_back(std::move(*clause));
  }
  conclusion.report.rules = stored.value("rules", schema::kFirstRules);
  if (!stages::decides_by(conclusion.report.rules)) return false;
  conclusion.report.verdict = *verdict;
  conclusion.report.stage = *schema::stage_from_name(live.run.key.stage);
  conclusion.report.notes.push_back(
      fmt::format("The same captures were measured in {} (run {} of this contract); its verdicts stand and "
                  "no α is spent.",
                  earlier.text(), k));
  conclusion.inputs_digest = stored.value("table_digest", "");
  conclusion.run = k;
  conclusion.report.alpha = schema::number_from_json(stored.value("alpha", nlohmann::json())).value_or(0);
  conclusion.report.code_version = stored.value("code_version", "");
  conclusion.report.seed = std::strtoull(stored.value("seed", "0").c_str(), nullptr, 16);
  finish_stage(live, conclusion);
  return true;
}

}  // namespace driftgate::pipeline
