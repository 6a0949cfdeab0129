#include "tests/daemon/pipeline/harness.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "daemon/evidence/log/log.hpp"
#include "daemon/evidence/log/query.hpp"
#include "daemon/evidence/verify/table_checks.hpp"
#include "daemon/jobs/engines/engine_client.hpp"
#include "daemon/jobs/shadow_pairs.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "gpu/capture/safetensors.hpp"
#include "gpu/table/measurement.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline::fakes {
namespace {

using nlohmann::json;

constexpr const char* kContract = R"(
apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: test}
kernels: {train: {ref: k-train}, inf: {ref: k-inf}}
slices: {dimensions: [language], min_sequences: 20, critical: [{language: de}]}
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
  - {id: tv, metric: tv, aggregate: sequence_mean, max: 0.1}
statistical:
  - {id: slice-tv, metric: tv, aggregate: sequence_mean, max: 0.2, slices: [critical]}
runtime:
  - {id: errors, metric: error_rate, max_ratio: 1.5, max: 0.2}
observability:
  - {id: pairs, signal: shadow_pairs, min_count: 100}
stages:
  shadow-runtime: {mirror_share: 0.5, min_duration: 5s, max_duration: 60s}
  canary:
    steps: [{share: 0.1}, {share: 0.5, approval: true}, {share: 1.0}]
    soak: 3s
    bake: 3s
    holdback: 0.01
    min_keys: 60
    max_duration: 30d
    telemetry: {freeze_after: 10s, revert_after: 20s}
confidence: {alpha: 0.05, alpha_harm: 0.01, alpha_advance: 0.05}
escalation:
  defaults: {hard: rollback, soft: freeze}
)";

constexpr int kSequences = 400;
constexpr int kRows = 4;

template <typename T>
T must(schema::Result<T> result) {
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().describe()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// A table in which every row of a sequence has the same total variation; every fourth is German.
gpu::MeasurementTable table_of(double tv, double german_tv, double spread = 0) {
  gpu::MeasurementTable table;
  table.train.kernel = "k-train";
  table.inf.kernel = "k-inf";
  table.train.sampling_filter = table.inf.sampling_filter = "none";
  table.rows = kSequences * kRows;
  table.vocabulary = 16;
  table.slices.emplace_back();
  for (int s = 0; s < kSequences; ++s) {
    const bool german = s % 4 == 0;
    gpu::SequenceRow row;
    row.sequence = s;
    row.rows = kRows;
    for (std::size_t metric = 0; metric < schema::kRowMetricCount; ++metric) {
      const bool is_tv = metric == static_cast<std::size_t>(schema::Metric::tv);
      const double value = is_tv ? (german ? german_tv : tv) + (s / 4 % 2 == 0 ? spread : -spread) : 0.0;
      for (int r = 0; r < kRows; ++r) row.metrics[metric].add(value);
    }
    table.sequences.push_back(row);
    gpu::SequenceInfo info;
    info.sequence = s;
    info.slices = {{"language", german ? "de" : "en"}};
    table.infos.push_back(info);
  }
  return table;
}

jobs::JobResult written(const std::string& folder, const char* name, const char* file,
                        const std::string& bytes) {
  std::ofstream(folder + "/" + file, std::ios::binary) << bytes;
  jobs::JobResult result;
  result.ok = true;
  result.files[name] = file;
  result.digests[name] = schema::sha256_digest(bytes);
  return result;
}

}  // namespace

void write_capture(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                   std::uint64_t vocabulary) {
  const std::vector<gpu::SafetensorsWriter::Tensor> tensors{{"logits", gpu::DType::f32, {1, vocabulary}},
                                                            {"sequence_ids", gpu::DType::i32, {1}}};
  metadata["capture.version"] = "1";
  auto writer = must(gpu::SafetensorsWriter::create(path, tensors, metadata));
  const std::vector<float> logits(vocabulary);
  const std::int32_t sequence = 0;
  must(writer.write(0, 0, std::as_bytes(std::span(logits))));
  must(writer.write(1, 0, std::as_bytes(std::span(&sequence, 1))));
  must(writer.finish());
}

Harness::Harness() : runner("") {
  auto pattern = (std::filesystem::temp_directory_path() / "driftgate-pipeline-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  folder = pattern;
  std::filesystem::create_directories(folder / "data");
  std::filesystem::create_directories(folder / "captures");
  std::ofstream(folder / "captures" / "corpus.jsonl") << "corpus.jsonl";
  for (const char* name : {"train.safetensors", "inf.safetensors"})
    write_capture(folder / "captures" / name, {});
  runner = FakeRunner((folder / "jobs").string());
  runner.make = [this](const jobs::JobSpec& spec, const std::string& where) { return job(spec, where); };
  driver.clock_us = [this] { return clock.now_us_; };
  contract = kContract;
  abilities.models = {"m"};
  abilities.completions = abilities.logprobs = abilities.stream = true;
  abilities.logprobs_by = jobs::LogprobsBy::count;
  abilities.scoring = jobs::Scoring::echo;
  settings.roots = {(folder / "captures").string()};
  settings.code_version = "test";
  settings.telemetry_ms = 1'000;
  settings.retry_ms = 1'000;
}

Harness::~Harness() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

void Harness::boot() {
  store = must(store::Store::open({.data_dir = folder / "data", .opened_us = clock.now_us_}));
  committer = std::make_unique<FaultyCommitter>(*store);
  committer->fail_at = fail_commit;
  committer->on_step = on_commit;
  Parts parts{
      .settings = settings,
      .store = *store,
      .driver = driver,
      .runner = runner,
      .instance = "daemon",
      .log = [this](std::string_view, const std::string& text) { warnings.push_back(text); },
      .clock = &clock,
      .committer = committer.get(),
      .random =
          [this] {
            store::IdRandom random{};
            ++ids;
            for (std::size_t i = 0; i < 8; ++i) random[9 - i] = static_cast<std::uint8_t>(ids >> (8 * i));
            return random;
          },
      .threaded = false,
      .health = [this](const std::string& url) -> schema::Result<void> {
        probed.push_back(url);
        if (std::ranges::find(unhealthy, url) == unhealthy.end()) return {};
        return schema::fail(schema::ErrorCode::unavailable, "nobody listens");
      },
      .probe = [this](const jobs::GoldenEngine& engine,
                      const std::string& prompt) -> schema::Result<jobs::GoldenAnswer> {
        asked.push_back(engine.base_url);
        if (answers) return answers(engine.base_url, prompt);
        return schema::fail(schema::ErrorCode::unavailable, "nobody answers");
      },
      .identify = [this](const std::string& url, const std::string&) -> schema::Result<stages::Identity> {
        const auto found = identities.find(url);
        if (found != identities.end()) return found->second;
        return schema::fail(schema::ErrorCode::unavailable, "nobody tells");
      },
      .rescore = [this](const jobs::KeptAnswers& kept, const jobs::RescoreEngine& reference,
                        const jobs::RescoreEngine& served) -> schema::Result<jobs::NextAnswer> {
        if (rescores) return rescores(kept, reference, served);
        jobs::NextAnswer none;
        none.offset = kept.offset;
        return none;
      },
      .outbox = notify::Outbox(webhooks)};
  pipeline = Pipeline::create(std::move(parts));
  must(pipeline->start());
}

/// Whatever happened before, the tables say what the log says.
void Harness::kill() {
  pipeline.reset();
  committer.reset();
  if (store != nullptr) {
    const auto differences = evidence::compare_all_tables(*store, [] { return true; });
    CHECK(differences.has_value());
    if (differences) {
      for (const auto& difference : *differences) FAIL_CHECK(evidence::to_text(difference));
    }
  }
  store.reset();
}

void Harness::restart() {
  kill();
  boot();
}

void Harness::set_up() {
  boot();
  must(pipeline->register_contract("pia", contract, "test.yaml"));
  must(pipeline->register_kernel("pia", R"({"name": "k-train", "dtype": "float32"})"));
  must(pipeline->register_kernel("pia", R"({"name": "k-inf", "dtype": "int8"})"));
  must(pipeline->register_kernel("pia", R"({"name": "k-safe", "dtype": "bf16"})"));
  add_engine("old", "k-train", 1);
  add_engine("new", "k-inf", 2);
  add_engine("newer", "k-inf", 3);
  must(pipeline->create_model("olga", {"m", "old", "the first version"}));
}

void Harness::add_engine(const std::string& name, const std::string& kernel, int port,
                         std::int64_t max_requests_per_second, const std::string& weights) {
  store::EngineRow row;
  row.name = name;
  row.base_url = "http://127.0.0.1:" + std::to_string(port);
  row.kernel = kernel;
  row.checkpoint = schema::sha256_digest(weights);
  row.abilities = jobs::to_json(abilities);
  row.registered_us = row.probed_us = clock.now_us_;
  row.max_requests_per_second = max_requests_per_second;
  const schema::EntryDraft entry{.time_us = clock.now_us_,
                                 .kind = schema::EvidenceKind::engine_registered,
                                 .actor = "pia",
                                 .subject = {.checkpoint = row.checkpoint},
                                 .body = {{"name", row.name},
                                          {"url", row.base_url},
                                          {"kernel", row.kernel},
                                          {"abilities", entry_value(json::parse(row.abilities))}}};
  must(store->write("engine", [&](store::Tx& tx) -> schema::Result<bool> {
    auto appended = evidence::append(tx, entry);
    if (!appended) return std::unexpected(appended.error());
    row.evidence_seq = appended->seq;
    return store::insert_engine(tx, row);
  }));
}

PromotionRequest Harness::request_for(const std::string& engine) const {
  PromotionRequest request{
      .model = "m", .engine = engine, .contract = "test", .numeric = {}, .slice = {}, .note = {}};
  request.fallback_engine = fallback_engine;
  request.numeric = StageCaptures{{"train.safetensors", ""}, {"inf.safetensors", ""}, "corpus.jsonl", {}};
  request.slice = request.numeric;
  return request;
}

std::string Harness::request(const std::string& engine) {
  return must(pipeline->request_promotion("pia", request_for(engine))).id;
}

void Harness::second() {
  clock.advance_ms(1'000);
  if (!driver.broken && driver.routes.contains("m")) {
    driver.serve("m", 200, clock.now_us_, [&](std::uint64_t k, const std::string& slice) {
      if (behaviour.only_german && slice != "language=de") return false;
      return k >= behaviour.fails_after && (behaviour.only_german || k % 3 == 0);
    });
  }
  runner.finish_all();
  pipeline->tick();
}

void Harness::approve_if_asked(const std::string& promotion) {
  const auto seen = view(promotion);
  if (!seen["approval"].is_object()) return;
  (void)pipeline->approve("anna", promotion, seen["approval"]["evidence_digest"], "read it");
}

std::string Harness::run_until(const std::string& promotion, const std::vector<std::string>& wanted,
                               bool approve) {
  for (int i = 0; i < 400; ++i) {
    const auto now = state(promotion);
    if (std::ranges::find(wanted, now) != wanted.end()) return now;
    if (approve) approve_if_asked(promotion);
    second();
  }
  return "still " + state(promotion) + ": " + view(promotion).dump();
}

json Harness::view(const std::string& promotion) const {
  return json::parse(must(pipeline->promotion(promotion)).json);
}
json Harness::model() const {
  return json::parse(must(pipeline->model("m")).json);
}
std::string Harness::state(const std::string& promotion) const {
  return must(pipeline->outcome(promotion)).state;
}

std::vector<std::string> Harness::kinds(const std::string& promotion) const {
  std::vector<std::string> found;
  evidence::EntryFilter filter;
  filter.promotion = promotion;
  filter.limit = evidence::kMaxPage;
  const auto page =
      must(store->read([&](store::Reader& reader) { return evidence::query_entries(reader, filter); }));
  for (const auto& entry : page.entries) {
    const auto value = json::parse(entry.bytes);
    auto text = value["kind"].get<std::string>();
    const auto& body = value["body"];
    if (text == "state_changed")
      text += " " + body["from"].get<std::string>() + ">" + body["to"].get<std::string>() + " " +
              body["stage"].get<std::string>();
    if (text == "verdict_reached" && body.value("scope", "") == "stage") {
      text += " " + value["subject"]["stage"].get<std::string>() + " " + body["verdict"].get<std::string>();
    } else if (text == "verdict_reached") {
      text += " " + value["subject"]["stage"].get<std::string>() + " " + body["clause"].get<std::string>() +
              " [" + body["slice"].get<std::string>() + "] " + body["verdict"].get<std::string>();
    }
    found.push_back(text);
  }
  return found;
}

std::vector<json> Harness::entries(const std::string& promotion, const std::string& kind) const {
  std::vector<json> found;
  evidence::EntryFilter filter;
  if (!promotion.empty()) filter.promotion = promotion;
  filter.kind = must(schema::parse_evidence_kind(kind));
  filter.limit = evidence::kMaxPage;
  const auto page =
      must(store->read([&](store::Reader& reader) { return evidence::query_entries(reader, filter); }));
  for (const auto& entry : page.entries) found.push_back(json::parse(entry.bytes));
  return found;
}

namespace {

std::vector<std::string> only(std::vector<std::string> all, std::string_view prefix) {
  std::vector<std::string> found;
  for (auto& text : all) {
    if (text.starts_with(prefix) && std::ranges::find(found, text) == found.end())
      found.push_back(std::move(text));
  }
  return found;
}

}  // namespace

std::vector<std::string> Harness::states(const std::string& promotion) const {
  return only(kinds(promotion), "state_changed");
}
std::vector<std::string> Harness::verdicts(const std::string& promotion) const {
  return only(kinds(promotion), "verdict_reached");
}

jobs::JobResult Harness::job(const jobs::JobSpec& spec, const std::string& where) const {
  if (spec.kind == jobs::JobKind::drift) {
    jobs::JobResult failed;
    if (!behaviour.capture_error.empty()) {
      failed.error = schema::Error{schema::ErrorCode::invalid_capture, behaviour.capture_error, {}, nullptr};
      return failed;
    }
    const bool slice = spec.key.find("statistical-slice") != std::string::npos;
    auto table = slice ? table_of(0.01, behaviour.german_tv)
                       : table_of(behaviour.numeric_tv, behaviour.numeric_tv, behaviour.numeric_spread);
    if (!slice) table.inf.kernel = behaviour.measured_kernel;
    auto result = written(where, "table", "table.bin", gpu::serialise(table));
    result.digests["train"] = schema::sha256_digest(slice ? "train2" : "train");
    result.digests["inf"] =
        schema::sha256_digest(slice ? "inf2" : "inf" + std::to_string(behaviour.numeric_tv));
    return result;
  }
  std::vector<stages::ShadowPair> pairs;
  for (std::uint64_t i = 0; i < 400; ++i) {
    stages::ShadowPair pair;
    pair.order = pair.key_hash = i + 1;
    pair.incumbent_latency = pair.candidate_latency = {5, 1, 20};
    const bool fails = static_cast<double>(i % 100) < behaviour.shadow_failures * 100;
    pair.candidate = fails ? stages::RequestOutcome::failed : stages::RequestOutcome::ok;
    pairs.push_back(pair);
  }
  auto result = written(where, "pairs", "pairs.jsonl", jobs::pairs_to_jsonl(pairs));
  result.summary = R"({"pairs": 400, "wanted": 0, "rescored": 0, "can_rescore": false, "notes": []})";
  return result;
}

}  // namespace driftgate::pipeline::fakes
