#include <chrono>
#include <nlohmann/json.hpp>

#include "daemon/jobs/drift_inputs.hpp"
#include "daemon/jobs/rooted_path.hpp"
#include "daemon/jobs/worker.hpp"
#include "gpu/capture/capture_digest.hpp"
#include "gpu/compare_bits.hpp"
#include "gpu/drift.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"
#include "stages/clauses/exact_test.hpp"

namespace driftgate::jobs {
namespace {

constexpr const char* kTableFile = "table.bin";
constexpr std::chrono::milliseconds kProgressInterval{200};

}  // namespace

schema::Result<JobResult> run_drift(const DriftPayload& payload, const JobFolder& folder) {
  const auto contract = TRY(contract_of(payload.contract));
  auto train = TRY(open_capture(payload.train, payload.roots, "train capture"));
  auto inf = TRY(open_capture(payload.inf, payload.roots, "inf capture"));
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
  // Progress is written at most every kProgressInterval.
  std::chrono::steady_clock::time_point reported{};
  const auto report = [&](std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (done != total && now - reported < kProgressInterval) return;
    reported = now;
    folder.report({done, total, "rows", "measuring"});
  };
  const auto options = measure_options(contract, known, payload);
  auto table =
      TRY(gpu::measure_with_bits(train, inf, known, options, stages::required_bits(contract), report));
  const auto train_digest = TRY(gpu::capture_digest(train));
  const auto inf_digest = TRY(gpu::capture_digest(inf));
  table.train.file_digest = train_digest;
  table.inf.file_digest = inf_digest;
  JobResult result;
  result.ok = true;
  result.digests = {{"train", train_digest}, {"inf", inf_digest}};
  if (!corpus_digest.empty()) result.digests["corpus"] = corpus_digest;
  result.summary = schema::canonical_json(nlohmann::json{{"rows", table.rows},
                                                         {"sequences", table.sequences.size()},
                                                         {"nonfinite_rows", table.nonfinite_rows},
                                                         {"train_kernel", table.train.kernel},
                                                         {"inf_kernel", table.inf.kernel}});
  TRY(folder.put_result(result, "table", kTableFile, gpu::serialise(table)));
  const FloorContext context{payload, contract, known, table};
  for (const auto& [side, pair] : {std::pair{stages::FloorSide::train, &payload.floor_train},
                                   {stages::FloorSide::inf, &payload.floor_inf}}) {
    if (!*pair) continue;
    TRY(measure_floor(context, side, **pair, folder, result));
  }
  return result;
}

}  // namespace driftgate::jobs
