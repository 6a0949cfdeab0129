#include "daemon/pipeline/read/distribution.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/people/redact.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/promotions/redactions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "schema/sha256.hpp"
#include "tests/daemon/store/rows.hpp"

using namespace driftgate;
using namespace driftgate::store::testing;
using nlohmann::json;
using schema::Metric;

namespace {

constexpr std::size_t kTv = static_cast<std::size_t>(Metric::tv);

/// `size` sequences of one row each, whose tv are scale·1/size, scale·2/size, …; every other one is German.
gpu::MeasurementTable table_of(int size, double scale, const std::string& kernel) {
  gpu::MeasurementTable table;
  table.train.kernel = "k-train";
  table.inf.kernel = kernel;
  table.train.sampling_filter = table.inf.sampling_filter = "none";
  table.rows = static_cast<std::uint64_t>(size);
  table.slices.resize(2);
  table.slices[1].where = {{"language", "de"}};
  for (int i = 0; i < size; ++i) {
    const double tv = scale * (i + 1) / size;
    const bool german = i % 2 == 0;
    gpu::SequenceRow row;
    row.sequence = i;
    row.rows = 1;
    row.metrics[kTv].add(tv);
    table.sequences.push_back(row);
    gpu::SequenceInfo info;
    info.sequence = i;
    info.id = "s" + std::to_string(i);
    info.slices = {{"language", german ? "de" : "en"}};
    table.infos.push_back(info);
    table.slices[0].histograms[kTv].add(tv);
    if (german) table.slices[1].histograms[kTv].add(tv);
    gpu::ProfileRow figures;
    figures.position = i;
    figures.tv = tv;
    figures.entropy_train = 0.05;
    figures.logprob_train = -0.1;
    table.profile.add(figures);
  }
  for (const int i : {size - 1, size - 2, size - 3}) {
    gpu::WorstRow worst;
    worst.row = static_cast<std::uint64_t>(i);
    worst.sequence = i;
    worst.position = i;
    worst.token = 7;
    worst.values[kTv] = scale * (i + 1) / size;
    table.worst_rows.push_back(worst);
  }
  return table;
}

struct Fixture : StoreFixture {
  pipeline::TableCache cache{1u << 20};
  std::string table = gpu::serialise(table_of(100, 0.5, "k-inf"));
  std::string floor = gpu::serialise(table_of(100, 0.01, "k-train"));

  Fixture() {
    insert_world(*store);
    const auto report = json{{"table_digest", schema::sha256_digest(table)},
                             {"floors", {{{"side", "train"}, {"table_digest", schema::sha256_digest(floor)}}}}}
                            .dump();
    write(*store, [&](store::Tx& tx) -> schema::Result<void> {
      must(insert_promotion(tx, promotion_row("pr-1")));
      for (const auto& bytes : {table, floor, report}) TRY(store::put_blob(tx, bytes, "x/y", 1));
      return store::insert_stage_run(
          tx, {.key = {"pr-1", "statistical-slice", 1}, .report = schema::sha256_digest(report)});
    });
  }
  schema::Result<pipeline::View> ask(pipeline::DistributionRequest request = {}) {
    request.promotion = "pr-1";
    request.stage = "statistical-slice";
    return pipeline::distribution_view(*store, cache, request);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a distribution is that of the rows, beside that of the noise floor") {
  const auto answer = json::parse(must(ask()).json);
  const auto& candidate = answer["candidate"];
  CHECK(candidate["unit"] == "rows");
  CHECK(candidate["n"] == 100);
  CHECK(candidate["mean"].get<double>() == doctest::Approx(0.2525));
  CHECK(candidate["max"].get<double>() == 0.5);
  CHECK(candidate["quantiles"]["0.5"].get<double>() == doctest::Approx(0.25).epsilon(0.011));
  const auto edges = candidate["edges"].get<std::vector<double>>();
  const auto shares = candidate["cdf"].get<std::vector<double>>();
  REQUIRE(edges.size() == shares.size());
  CHECK(std::ranges::is_sorted(edges));
  CHECK(edges.back() == 0.5);
  CHECK(shares.back() == 1);
  for (std::size_t i = 0; i < edges.size(); ++i)
    CHECK(shares[i] == doctest::Approx(std::floor(edges[i] * 200 + 1e-9) / 100).epsilon(0.011));
  CHECK(answer["floors"]["inf"].is_null());
  CHECK(answer["floors"]["train"]["max"].get<double>() == 0.01);
  CHECK(answer["floors"]["train"]["kernels"]["inf"] == "k-train");
}

TEST_CASE_FIXTURE(Fixture, "the rows of a bucket are averaged, and the worst rows come worst first with their place") {
  const auto answer = json::parse(must(ask()).json);
  const auto& positions = answer["by"]["position"];
  REQUIRE(positions.size() == 8);  // 0, 1, 2 to 3, …, 64 to 127
  CHECK(positions[0] == json{{"from", 0}, {"to", 1}, {"rows", 1}, {"mean", 0.005}});
  CHECK(positions[2]["from"] == 2);
  CHECK(positions[2]["to"] == 4);
  CHECK(positions[2]["mean"].get<double>() == doctest::Approx(0.0175));
  REQUIRE(answer["by"]["entropy"].size() == 1);
  CHECK(answer["by"]["entropy"][0]["from"] == 0.01);
  CHECK(answer["by"]["entropy"][0]["rows"] == 100);
  REQUIRE(answer["by"]["probability"].size() == 1);
  CHECK(answer["by"]["probability"][0]["from"] == 0.9);
  CHECK(answer["by"]["probability"][0]["to"] == 0.99);
  REQUIRE(answer["worst"].size() == 3);
  CHECK(answer["worst"][0]["value"] == 0.5);
  CHECK(answer["worst"][0]["id"] == "s99");
  CHECK(answer["worst"][0]["slice"] == "language=en");
  CHECK(answer["worst"][0]["token"] == 7);
}

TEST_CASE_FIXTURE(Fixture, "a slice has its own rows, and a metric without a profile has no buckets") {
  const auto german = json::parse(must(ask({.slice = "language=de"})).json);
  CHECK(german["rows"] == 50);
  CHECK(german["candidate"]["unit"] == "rows");
  CHECK(german["candidate"]["max"].get<double>() == doctest::Approx(0.495));
  REQUIRE(german["worst"].size() == 1);
  CHECK(german["worst"][0]["id"] == "s98");
  const auto english = json::parse(must(ask({.slice = "language=en"})).json);
  CHECK(english["candidate"]["unit"] == "sequences");
  CHECK(english["candidate"]["edges"].size() == 50);
  const auto other = json::parse(must(ask({.metric = "js"})).json);
  CHECK(other["candidate"].is_null());
  CHECK(other["by"].is_null());
}

TEST_CASE_FIXTURE(Fixture, "a table is parsed once while it is used, and one that is gone is not found") {
  CHECK(ask().has_value());
  const auto parsed = cache.find(schema::sha256_digest(table));
  REQUIRE(parsed.has_value());
  CHECK(ask().has_value());
  CHECK(cache.find(schema::sha256_digest(table)) == parsed);
  write(*store, [&](store::Tx& tx) { return store::delete_blob(tx, schema::sha256_digest(table)); });
  const auto gone = ask();
  REQUIRE_FALSE(gone.has_value());
  CHECK(gone.error().code == schema::ErrorCode::not_found);
  CHECK(gone.error().message.find("not stored") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "what a redaction destroyed is not shown from memory") {
  const auto report = json{{"table_digest", schema::sha256_digest(table)}}.dump();
  write(*store, [&](store::Tx& tx) -> schema::Result<void> {
    auto ended = promotion_row("pr-2");
    ended.state = store::PromotionState::aborted;
    TRY(store::insert_promotion(tx, ended));
    TRY(store::put_blob(tx, report, "application/json", 1));
    return store::insert_stage_run(
        tx, {.key = {"pr-2", "shadow-runtime", 1}, .report = schema::sha256_digest(report)});
  });
  const auto shadow = [&] {
    return pipeline::distribution_view(*store, cache, {.promotion = "pr-2", .stage = "shadow-runtime"});
  };
  CHECK(shadow().has_value());
  REQUIRE(pipeline::redact_promotion(*store, "olga", "pr-2", "a user asked", 9).has_value());
  const auto gone = shadow();
  REQUIRE_FALSE(gone.has_value());
  CHECK(gone.error().code == schema::ErrorCode::not_found);
}

TEST_CASE("what was used last is held, up to a sum of weights") {
  pipeline::RecentlyUsed<int> held(10);
  held.put("a", 1, 4);
  held.put("b", 2, 4);
  CHECK(held.find("a") == 1);
  held.put("c", 3, 4);
  CHECK(held.find("a") == 1);
  CHECK_FALSE(held.find("b").has_value());
  CHECK(held.find("c") == 3);
  held.put("d", 4, 11);
  CHECK_FALSE(held.find("d").has_value());
  held.put("c", 5, 4);
  CHECK(held.find("c") == 3);
}
