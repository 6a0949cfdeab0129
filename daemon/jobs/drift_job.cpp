#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "daemon/jobs/drift_inputs.hpp"
#include "daemon/jobs/rooted_path.hpp"
#include "daemon/jobs/worker.hpp"
#include "gpu/capture/capture_digest.hpp"
#include "gpu/compare_bits.hpp"
#include "gpu/drift.hpp"
#include "schema/contract/contract.hpp"
#include "schema/contract/stored_contract.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "stages/clauses/exact_test.hpp"

namespace driftgate::jobs {
namespace {

using schema::ErrorCode;

constexpr const char* kTableFile = "table.bin";
constexpr std::chrono::milliseconds kProgressInterval{200};

JobResult failed(const schema::Error& error) {
  JobResult result;
  result.error = error;
  return result;
}

/// Tells progress at most every kProgressInterval.
class Teller {
 public:
  explicit Teller(const JobFolder& folder) : folder_(folder) {}
  void operator()(std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (done != total && now - last_ < kProgressInterval) return;
    last_ = now;
    folder_.report({done, total, "rows", "measuring"});
  }

 private:
  const JobFolder& folder_;
  std::chrono::steady_clock::time_point last_{};
};

schema::Result<JobResult> finished(const gpu::MeasurementTable& table, const JobFolder& folder) {
  const auto bytes = gpu::serialise(table);
  TRY(folder.put(kTableFile, bytes));
  JobResult result;
  result.ok = true;
  result.files["table"] = kTableFile;
  result.digests["table"] = schema::sha256_digest(bytes);
  const nlohmann::json summary{{"rows", table.rows},
                               {"sequences", table.sequences.size()},
                               {"nonfinite_rows", table.nonfinite_rows},
                               {"train_kernel", table.train.kernel},
                               {"inf_kernel", table.inf.kernel}};
  result.summary = schema::canonical_json(summary);
  return result;
}

schema::Result<JobResult> measure(const DriftPayload& payload, const JobFolder& folder) {
  auto report = schema::parse_stored_contract(payload.contract, "the contract");
  if (!report.contract) {
    return schema::fail(ErrorCode::invalid_document, schema::format_faults(report.faults, "the contract"));
  }
  auto train = open_capture(payload.train, payload.roots, "train capture");
  if (!train) return std::unexpected(train.error());
  auto inf = open_capture(payload.inf, payload.roots, "inf capture");
  if (!inf) return std::unexpected(inf.error());
  std::optional<gpu::Corpus> corpus;
  std::string corpus_digest;
  if (!payload.corpus.empty()) {
    // Read once: what is hashed is what is parsed, whatever happens to the file meanwhile.
    auto text = read_below(payload.corpus, payload.roots, gpu::kMaxCorpusBytes);
    if (!text) return schema::wrap(text.error(), "the corpus");
    auto read = gpu::parse_corpus(*text, payload.corpus);
    if (!read) return schema::wrap(read.error(), "the corpus");
    corpus_digest = schema::sha256_digest(*text);
    corpus = std::move(*read);
  }
  const auto* known = corpus ? &*corpus : nullptr;
  Teller teller(folder);
  const auto options = measure_options(*report.contract, known, payload);
  auto table =
      TRY(gpu::measure_with_bits(*train, *inf, known, options, stages::required_bits(*report.contract),
                                 [&](std::uint64_t done, std::uint64_t total) { teller(done, total); }));
  auto train_digest = gpu::capture_digest(*train);
  auto inf_digest = TRY(train_digest ? gpu::capture_digest(*inf) : train_digest);
  table.train.file_digest = *train_digest;
  table.inf.file_digest = inf_digest;
  auto result = finished(table, folder);
  if (!result) return result;
  result->digests["train"] = *train_digest;
  result->digests["inf"] = inf_digest;
  if (!corpus_digest.empty()) result->digests["corpus"] = corpus_digest;
  const FloorContext context{payload, *report.contract, known, table};
  for (const auto& [side, pair] : {std::pair{stages::FloorSide::train, &payload.floor_train},
                                   {stages::FloorSide::inf, &payload.floor_inf}}) {
    if (!*pair) continue;
    TRY(measure_floor(context, side, **pair, folder, *result));
  }
  return result;
}

}  // namespace

JobResult run_drift(const DriftPayload& payload, const JobFolder& folder) {
  auto result = measure(payload, folder);
  return result ? *result : failed(result.error());
}

}  // namespace driftgate::jobs
