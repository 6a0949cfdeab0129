#include "daemon/cli/drift/drift_ranks.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using driftgate::gpu::test::TemporaryFolder;
using driftgate::gpu::test::write_bytes;

namespace {

cli::DriftArgs tiny(const std::filesystem::path& json) {
  cli::DriftArgs args;
  args.train = "tests/vectors/tiny_f32.safetensors";
  args.inf = "tests/vectors/tiny_int8.safetensors";
  args.corpus = "tests/vectors/tiny_corpus.jsonl";
  args.json = json.string();
  return args;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("ranks of one process report what one rank reports, and say how they shared the work") {
  TemporaryFolder folder;
  REQUIRE(cli::drift_command(tiny(folder / "one.json")) == 0);
  const auto one = read_json(folder / "one.json");
  for (const char* shard : {"rows", "vocab"}) {
    auto args = tiny(folder / "many.json");
    args.ranks = 3;
    args.shard = shard;
    REQUIRE(cli::drift_command(args) == 0);
    const auto many = read_json(folder / "many.json");
    CHECK(many["device"] == std::string("cpu, 3 ranks over threads, ") + shard);
    CHECK(many["rows"] == one["rows"]);
    CHECK(many["slices"].size() == one["slices"].size());
    for (const char* metric : {"tv", "kl_inf_train", "js", "logit_span"}) {
      CAPTURE(metric);
      const double wanted = one["metrics"][metric]["mean"], got = many["metrics"][metric]["mean"];
      CHECK(got == doctest::Approx(wanted).epsilon(1e-6));
    }
    CHECK(many["worst_rows"][0]["row"] == one["worst_rows"][0]["row"]);
  }
}

TEST_CASE(
    "figures of single rows are written when the vocabulary is split, unless asked otherwise, and refused "
    "when rows are") {
  TemporaryFolder folder;
  auto args = tiny(folder / "o.json");
  args.ranks = 2;
  args.rows_out = folder / "rows.safetensors";
  args.shard = "rows";
  CHECK(cli::drift_command(args) == 4);
  for (const char* shard : {"auto", "vocab"}) {
    args.shard = shard;
    CHECK(cli::drift_command(args) == 0);
    CHECK(read_json(folder / "o.json")["shard"]["mode"] == "vocab");
  }
  const auto file = gpu::SafetensorsFile::open(args.rows_out);
  REQUIRE(file);
}

TEST_CASE("ranks that make no sense are a usage error") {
  TemporaryFolder folder;
  const auto refused = [&](auto change) {
    auto args = tiny(folder / "o.json");
    change(args);
    CHECK(cli::drift_command(args) == 64);
  };
  refused([](cli::DriftArgs& a) { a.shard = "columns"; });
  refused([](cli::DriftArgs& a) { a.timeout_s = 0; });
  refused([](cli::DriftArgs& a) { a.timeout_s = 1e9; });
  refused([](cli::DriftArgs& a) { a.exchange = "udp"; });
  refused([](cli::DriftArgs& a) { a.exchange = "nccl"; });
  refused([](cli::DriftArgs& a) { a.device = "gpu"; });
  refused([](cli::DriftArgs& a) { a.device = "cuda:0,0"; });
  refused([](cli::DriftArgs& a) { a.device = "cuda:0,1", a.ranks = 3; });
  refused([](cli::DriftArgs& a) { a.ranks = 5'000; });
  refused([](cli::DriftArgs& a) { a.ranks = 300, a.shard = "vocab"; });
}
