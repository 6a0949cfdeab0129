#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "daemon/jobs/drift_inputs.hpp"
#include "daemon/jobs/kept_chunks.hpp"
#include "daemon/jobs/rooted_path.hpp"
#include "daemon/jobs/worker.hpp"
#include "gpu/capture/capture_digest.hpp"
#include "gpu/drift.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "stages/clauses/exact_test.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;
using schema::Result;

constexpr const char* kTableFile = "table.bin";
constexpr std::chrono::milliseconds kProgressInterval{200};

struct CorpusFile {
  std::optional<gpu::Corpus> corpus;
  std::string digest;  ///< empty without a corpus
};

Result<CorpusFile> read_corpus(const DriftPayload& payload) {
  CorpusFile out;
  if (payload.corpus.empty()) return out;
  // Read once: what is hashed is what is parsed, whatever happens to the file meanwhile.
  auto text = read_below(payload.corpus, payload.roots, gpu::kMaxCorpusBytes);
  if (!text) return schema::wrap(text.error(), "the corpus");
  auto read = gpu::parse_corpus(*text, payload.corpus);
  if (!read) return schema::wrap(read.error(), "the corpus");
  out.digest = schema::sha256_digest(*text);
  out.corpus = std::move(*read);
  return out;
}

/// Writes progress at most every kProgressInterval. The first report of a measurement is always written: it
/// shows what was taken over.
gpu::Progress progress_of(const JobFolder& folder, const std::string& text) {
  return [&folder, text, reported = std::chrono::steady_clock::time_point{}](std::uint64_t done,
                                                                             std::uint64_t total) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (done != total && now - reported < kProgressInterval) return;
    reported = now;
    folder.report({done, total, "rows", text});
  };
}

/// One drift job on its ranks.
class DriftJob {
 public:
  DriftJob(const DriftPayload& payload, const JobFolder& folder, const DriftRun& run)
      : payload_(payload), folder_(folder), run_(run) {}

  Result<std::optional<JobResult>> run() {
    const auto contract = TRY(contract_of(payload_.contract));
    auto train = TRY(open_capture(payload_.train, payload_.roots, "train capture"));
    auto inf = TRY(open_capture(payload_.inf, payload_.roots, "inf capture"));
    auto floors = TRY(open_floors(payload_, train, inf));
    const auto file = TRY(read_corpus(payload_));
    TRY(check_identities(train, inf, file.digest));
    corpus_ = file.corpus ? &*file.corpus : nullptr;
    const std::string job = run_.spec + "|" + file.digest;
    auto table = TRY(measure(train, inf, measure_options(contract, corpus_, payload_),
                             stages::required_bits(contract), {job, "table", "measuring"}));
    JobResult result;
    if (table) TRY(add_drift(train, inf, file.digest, std::move(*table), result));
    for (const FloorInputs& floor : floors) {
      auto measured = measure(floor.first, floor.second, floor_options(contract, corpus_, payload_), {},
                              {job, floor.key, "measuring the " + floor.name});
      if (!measured && !gpu::is_interruption(measured.error()))
        return schema::wrap(measured.error(), "the " + floor.name);
      auto own = TRY(std::move(measured));
      if (own) TRY(add_floor(floor, std::move(*own), result));
    }
    if (!run_.ranks.root()) return std::optional<JobResult>();
    return std::optional(std::move(result));
  }

 private:
  /// The captures of the floors are of the same as these, which opening them has checked.
  Result<void> check_identities(const gpu::Capture& train, const gpu::Capture& inf,
                                const std::string& corpus) const {
    if (!payload_.captures_of) return {};
    const auto& of = *payload_.captures_of;
    TRY(check_capture(train.identity(), {of.train_kernel, of.checkpoint, corpus}, "the train capture"));
    return check_capture(inf.identity(), {of.inf_kernel, of.checkpoint, corpus}, "the inf capture");
  }

  struct Step {
    const std::string& job;
    std::string name, text;
  };

  Result<std::optional<gpu::MeasurementTable>> measure(const gpu::Capture& train, const gpu::Capture& inf,
                                                       gpu::MeasureOptions options,
                                                       const std::vector<std::string>& exact,
                                                       const Step& step) {
    KeptChunks chunks(folder_, step.job + "|" + stamps_of(train) + "|" + stamps_of(inf));
    options.chunking = {&chunks, step.name, payload_.chunk_bytes, run_.stop};
    constexpr bool kSmallAlone = true;
    return run_.ranks.measure(train, inf, corpus_, std::move(options), exact, progress_of(folder_, step.text),
                              {}, kSmallAlone);
  }

  Result<void> add_drift(const gpu::Capture& train, const gpu::Capture& inf, const std::string& corpus_digest,
                         gpu::MeasurementTable table, JobResult& result) {
    const auto train_digest = TRY(gpu::capture_digest(train));
    const auto inf_digest = TRY(gpu::capture_digest(inf));
    table.train.file_digest = train_digest;
    table.inf.file_digest = inf_digest;
    result.ok = true;
    result.digests = {{"train", table.train.file_digest}, {"inf", table.inf.file_digest}};
    if (!corpus_digest.empty()) result.digests["corpus"] = corpus_digest;
    nlohmann::json summary{{"rows", table.rows},
                           {"sequences", table.sequences.size()},
                           {"nonfinite_rows", table.nonfinite_rows},
                           {"train_kernel", table.train.kernel},
                           {"inf_kernel", table.inf.kernel}};
    if (const auto& choice = run_.ranks.choice()) {
      summary["ranks"] = run_.ranks.size();
      summary["shard"] = gpu::to_string(choice->shard);
      summary["shard_reason"] = choice->reason;
    }
    result.summary = schema::canonical_json(summary);
    return folder_.put_result(result, "table", kTableFile, gpu::serialise(table));
  }

  Result<void> add_floor(const FloorInputs& floor, gpu::MeasurementTable table, JobResult& result) {
    const auto first = TRY(gpu::capture_digest(floor.first));
    const auto second = TRY(gpu::capture_digest(floor.second));
    table.train.file_digest = result.digests[floor.key + "_first"] = first;
    table.inf.file_digest = result.digests[floor.key + "_second"] = second;
    return folder_.put_result(result, floor.key, floor.key + ".bin", gpu::serialise(table));
  }

  const DriftPayload& payload_;
  const JobFolder& folder_;
  const DriftRun& run_;
  const gpu::Corpus* corpus_ = nullptr;
};

}  // namespace

Result<gpu::SessionRequest> ranks_of(const DriftPayload& payload, std::uint32_t ranks) {
  const auto unknown = [](const char* member, const std::string& value, const char* words) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("the job's payload: {} is '{}'; allowed: {}", member, value, words));
  };
  const std::string& exchange = payload.exchange;
  if (payload.shard != "auto" && payload.shard != "rows" && payload.shard != "vocab")
    return unknown("shard", payload.shard, "auto, rows, vocab");
  if (exchange != "auto" && exchange != "threads" && exchange != "mpi" && exchange != "nccl")
    return unknown("exchange", exchange, "auto, threads, mpi, nccl");
  if (exchange == "nccl" && !payload.device.starts_with("cuda"))
    return unknown("exchange", exchange, "auto, threads, mpi, since nccl is between CUDA devices");
  gpu::SessionRequest out;
  out.device = payload.device;
  out.ranks = ranks;
  out.exchange = exchange;
  if (payload.shard == "rows") out.shard = gpu::Shard::rows;
  if (payload.shard == "vocab") out.shard = gpu::Shard::vocab;
  out.other_number = "set jobs.ranks to that number, or start as many processes as spec.json has ranks";
  return out;
}

Result<std::optional<JobResult>> run_drift(const DriftPayload& payload, const JobFolder& folder,
                                           const DriftRun& run) {
  return DriftJob(payload, folder, run).run();
}

}  // namespace driftgate::jobs
