#include <doctest/doctest.h>

#include <filesystem>
#include <ranges>

#include "daemon/base/read_file.hpp"
#include "daemon/jobs/kept_chunks.hpp"
#include "daemon/jobs/worker.hpp"
#include "gpu/table/measurement.hpp"
#include "tests/daemon/jobs/temp_folder.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using schema::ErrorCode;

namespace {

constexpr const char* kContract =
    R"({"apiVersion":"driftgate/v1","kind":"KernelContract","metadata":{"name":"t"},"kernels":{"train":{"ref":"a"},"inf":{"ref":"b"}},"numerical":[{"id":"tv","metric":"tv","aggregate":"p90","max":0.1,"floor_multiple":2,"floor_cap":0.4}]})";

/// Eight rows, four sequences; row 1 has another greedy token when `flipped`.
gpu::test::CaptureDraft draft(const char* kernel, float shift, bool flipped) {
  gpu::test::CaptureDraft made;
  made.metadata["kernel"] = kernel;
  made.metadata["checkpoint.digest"] = "sha256:c";
  for (int i = 0; i < 8; ++i) {
    const float top = flipped && i == 1 ? 0.5F : 3.0F;
    made.add_row(i / 2, i % 2, 0, {top, 1.0F + shift, 0.25F, 0});
  }
  return made;
}

struct World {
  TempFolder folder;
  JobFolder job{folder.path / "job"};
  DriftPayload payload;

  World() {
    std::filesystem::create_directories(job.path());
    draft("a", 0, false).write(folder.path / "train.safetensors");
    draft("a", 0.5F, true).write(folder.path / "train2.safetensors");
    draft("b", 0.25F, false).write(folder.path / "inf.safetensors");
    draft("b", 0.375F, false).write(folder.path / "inf2.safetensors");
    payload.train = path("train");
    payload.inf = path("inf");
    payload.contract = kContract;
    payload.roots = {folder.path.string()};
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder.path / (name + ".safetensors")).string();
  }
  [[nodiscard]] JobResult run() const {
    auto done = start();
    if (!done) return failed(done.error());
    return **done;
  }
  /// With ranks that are threads; `stop` is asked before each chunk.
  [[nodiscard]] schema::Result<std::optional<JobResult>> start(std::uint32_t ranks = 1,
                                                               std::function<bool()> stop = {}) const {
    auto request = ranks_of(payload, ranks);
    if (!request) return std::unexpected(request.error());
    request->exchange = "threads";
    auto session = gpu::RankSession::start(*request);
    if (!session) return std::unexpected(session.error());
    auto done = run_drift(payload, job, {*session, "spec", std::move(stop)});
    if (done) KeptChunks(job, "").clear();  // as the worker does once the result is written
    return done;
  }
  [[nodiscard]] std::ptrdiff_t kept_chunks() const {
    std::error_code absent;
    return std::ranges::distance(std::filesystem::directory_iterator(job.file(kChunksFolder), absent),
                                 std::filesystem::directory_iterator());
  }
  [[nodiscard]] gpu::MeasurementTable table(const JobResult& result, const char* name) const {
    const auto bytes = job.get(result.files.at(name));
    REQUIRE(bytes);
    auto table = gpu::deserialise(*bytes);
    REQUIRE(table);
    return *table;
  }
};

}  // namespace

TEST_CASE("a drift job measures each floor into a table of its own") {
  World world;
  world.payload.floor_train = DriftPayload::FloorPair{world.path("train"), world.path("train2")};
  world.payload.floor_inf = DriftPayload::FloorPair{world.path("inf"), world.path("inf2")};
  const auto again = drift_payload_from_json(to_json(world.payload));
  REQUIRE(again);
  CHECK(again->floor_train == world.payload.floor_train);
  CHECK(again->floor_inf == world.payload.floor_inf);

  const auto result = world.run();
  REQUIRE_MESSAGE(result.ok, (result.error ? result.error->describe() : ""));
  const auto train = world.table(result, "floor_train"), inf = world.table(result, "floor_inf");
  CHECK(train.train.kernel == "a");
  CHECK(train.inf.kernel == "a");
  CHECK(inf.inf.kernel == "b");
  const auto flips = [](const gpu::MeasurementTable& table, std::size_t sequence) {
    return table.sequences[sequence].metrics[static_cast<std::size_t>(schema::Metric::top1_flip)].sum;
  };
  CHECK(flips(train, 0) == 1);
  CHECK(flips(train, 1) == 0);
  CHECK(flips(inf, 0) == 0);
  CHECK(train.thresholds.size() == 8);  // the grid of limits over the multiple
  CHECK(world.table(result, "table").thresholds.size() == 9);
  CHECK(result.digests.at("floor_train") == file_digest(world.job.file("floor_train.bin")).value());
  CHECK(result.digests.at("floor_inf_second") == file_digest(world.path("inf2")).value());
  CHECK(train.inf.file_digest == result.digests.at("floor_train_second"));
}

TEST_CASE("a job without floors says nothing of floors") {
  const World world;
  const auto result = world.run();
  REQUIRE(result.ok);
  CHECK(result.files.size() == 1);
  CHECK(to_json(world.payload).find("\"floor_train\"") == std::string::npos);
  CHECK(to_json(world.payload).find("\"floor_inf\"") == std::string::npos);
}

TEST_CASE("a floor of another kernel, checkpoint or of one file twice is refused by name") {
  World world;
  const auto fails_with = [&](const char* text) {
    const auto result = world.run();
    REQUIRE_FALSE(result.ok);
    CAPTURE(result.error->describe());
    CHECK(result.error->describe().find(text) != std::string::npos);
  };
  world.payload.floor_inf = DriftPayload::FloorPair{world.path("train"), world.path("train2")};
  fails_with("the inf floor: its kernel is 'a' and that of the drift's capture is 'b'");
  world.payload.floor_inf = DriftPayload::FloorPair{world.path("inf"), world.path("inf")};
  fails_with("shows no noise");
  world.payload.floor_inf = DriftPayload::FloorPair{world.path("inf"), "/etc/passwd"};
  fails_with("the second capture of the inf floor");
  auto other = draft("b", 0, false);
  other.metadata["checkpoint.digest"] = "sha256:d";
  other.write(world.folder.path / "other.safetensors");
  world.payload.floor_inf = DriftPayload::FloorPair{world.path("inf"), world.path("other")};
  fails_with("checkpoint");
}

TEST_CASE("captures of another promotion are refused before anything is measured") {
  World world;
  const auto fails_with = [&](CapturesOf of, const char* text) {
    world.payload.captures_of = std::move(of);
    const auto result = world.run();
    REQUIRE_FALSE(result.ok);
    CAPTURE(result.error->describe());
    CHECK(result.error->code == ErrorCode::not_comparable);
    CHECK(result.error->describe().find(text) != std::string::npos);
    CHECK(result.files.empty());
    CHECK(world.kept_chunks() == 0);
  };
  fails_with({"a", "z", "sha256:c"},
             "the inf capture states the kernel 'b', and the contract wants 'z' there");
  fails_with({"z", "b", "sha256:c"}, "the train capture states the kernel 'a'");
  fails_with({"a", "b", "sha256:other"},
             "states the checkpoint.digest 'sha256:c', and the candidate's engine");
  world.payload.captures_of = CapturesOf{"a", "b", "sha256:c"};
  CHECK(world.run().ok);
  auto of_corpus = draft("b", 0, false);
  of_corpus.metadata["corpus.digest"] = "sha256:e";
  of_corpus.write(world.folder.path / "of_corpus.safetensors");
  const auto head = read_capture_head(world.path("of_corpus"), world.payload.roots);
  REQUIRE(head.has_value());
  CHECK(head->vocabulary == 4);
  CHECK(check_capture(head->identity, {"b", "sha256:c", "sha256:e"}, "the capture").has_value());
  CHECK(check_capture(head->identity, {"b", "sha256:c"}, "the capture").has_value());
  const auto other = check_capture(head->identity, {"b", "sha256:c", "sha256:f"}, "the capture");
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().message.find("driftgate capture digest --corpus FILE") != std::string::npos);
}

TEST_CASE("a job that is told to stop keeps its chunks, and the next start ends with the same bytes") {
  World world;
  world.payload.floor_train = DriftPayload::FloorPair{world.path("train"), world.path("train2")};
  for (const std::uint32_t ranks : {1U, 2U}) {
    for (const char* shard : {"rows", "vocab"}) {
      world.payload.shard = shard;
      world.payload.chunk_bytes = gpu::kChunkBytes;
      const auto whole = world.start(ranks);
      REQUIRE(whole);
      // A sequence is a chunk. The job is started again after every one; the floor is in chunks too.
      world.payload.chunk_bytes = 1;
      int starts = 0;
      for (;; ++starts) {
        REQUIRE(starts < 20);
        const auto kept = [&] { return world.kept_chunks(); };
        const auto done = world.start(ranks, [&, before = kept()] { return kept() > before; });
        if (!done) {
          REQUIRE_MESSAGE(gpu::is_interruption(done.error()), done.error().describe());
          continue;
        }
        CAPTURE(ranks);
        CAPTURE(shard);
        CHECK((*done)->digests == (*whole)->digests);
        CHECK((*done)->summary == (*whole)->summary);
        break;
      }
      CHECK(starts > 0);
    }
  }
}

TEST_CASE("a chunk of another spec is measured again") {
  World world;
  world.payload.chunk_bytes = 1;
  const auto whole = world.run();
  REQUIRE(whole.ok);
  int asked = 0;
  const auto stop = [&] { return ++asked > 1; };
  REQUIRE_FALSE(world.start(1, stop));
  const auto chunk = world.job.file("chunks/table-0000");
  const auto kept = base::read_file(chunk);
  REQUIRE(kept);
  // The contract's thresholds are part of what is counted.
  world.payload.contract.replace(world.payload.contract.find("0.4"), 3, "0.3");
  asked = 0;
  REQUIRE_FALSE(world.start(1, stop));
  const auto again = base::read_file(chunk);
  REQUIRE(again);
  CHECK(*again != *kept);
}

TEST_CASE(
    "a job of several ranks says how they shared the work, and words that it does not know are refused") {
  World world;
  const auto summary = [&](std::uint32_t ranks) {
    const auto done = world.start(ranks);
    REQUIRE(done);
    return (*done)->summary;
  };
  CHECK(summary(1).find("shard") == std::string::npos);
  const std::string two = summary(2), five = summary(5);
  CHECK(two.find(R"("ranks":2)") != std::string::npos);
  CHECK(two.find(R"("shard":"rows")") != std::string::npos);
  CHECK(five.find(R"("shard":"rows")") != std::string::npos);
  CHECK(five.find("4 columns cannot be shared by 5 ranks") != std::string::npos);
  const auto refused = [&](const char* text) {
    const auto done = world.start(2);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == ErrorCode::invalid_argument);
    CHECK(done.error().describe().find(text) != std::string::npos);
  };
  world.payload.shard = "columns";
  refused("shard is 'columns'; allowed: auto, rows, vocab");
  world.payload.shard = "auto", world.payload.exchange = "nccl";
  refused("nccl is between CUDA devices");
  world.payload.exchange = "pigeon";
  refused("exchange is 'pigeon'");
}
