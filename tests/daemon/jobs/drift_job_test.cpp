#include <doctest/doctest.h>

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

/// Four rows; row 1 has another greedy token when `flipped`.
gpu::test::CaptureDraft draft(const char* kernel, float shift, bool flipped) {
  gpu::test::CaptureDraft made;
  made.metadata["kernel"] = kernel;
  made.metadata["checkpoint.digest"] = "sha256:c";
  for (int i = 0; i < 4; ++i) {
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
    auto done = run_drift(payload, job);
    return done ? *done : failed(done.error());
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
