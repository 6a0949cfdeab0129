#include "gpu/ranks/ranked_drift.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gpu/ranks/thread_ranks.hpp"
#include "tests/gpu/fused/hidden_case.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint32_t kSeed = 31;

struct Shape {
  std::size_t rows = 90;
  std::uint64_t columns = 300;
  double noise = 0.05;
  bool tokens = true, ties = false, masks = false;
};

CaptureDraft random_draft(const Shape& shape, bool inf) {
  CaptureDraft draft;
  draft.vocabulary = shape.columns;
  std::mt19937 logits(kSeed), other(kSeed + 1), masks(kSeed + 2);
  std::normal_distribution<float> normal;
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::vector<float> values;
    const auto token = static_cast<std::int32_t>(row * 17 % shape.columns);
    for (std::size_t v = 0; v < shape.columns; ++v) {
      float z = 4 * normal(logits);
      if (shape.ties) z = std::round(z);
      const float y = z + static_cast<float>(shape.noise) * normal(other);
      const bool masked = shape.masks && masks() % 3 == 0 && v != static_cast<std::size_t>(token);
      values.push_back(masked ? -std::numeric_limits<float>::infinity() : inf ? y : z);
    }
    draft.add_row(static_cast<std::int32_t>(row / 7), static_cast<std::int32_t>(row % 7), token, values);
  }
  if (!shape.tokens) draft.tokens.clear();
  return draft;
}

Capture written(const CaptureDraft& draft, const std::filesystem::path& path) {
  draft.write(path);
  auto capture = Capture::open(path);
  if (!capture) FAIL(capture.error().describe());
  return std::move(*capture);
}

/// The first per-sequence figure of which two tables say something else, beyond 1e-6 of its size.
std::string difference(const MeasurementTable& a, const MeasurementTable& b) {
  const auto near = [](double x, double y, double scale) {
    return std::abs(x - y) <= std::max(1e-6 * scale, 1e-12) || x == y;
  };
  if (a.rows != b.rows || a.sequences.size() != b.sequences.size()) return "shape";
  if (a.nonfinite_rows != b.nonfinite_rows) return "nonfinite_rows";
  for (std::size_t i = 0; i < a.sequences.size(); ++i) {
    const SequenceRow& x = a.sequences[i];
    const SequenceRow& y = b.sequences[i];
    if (x.sequence != y.sequence || x.rows != y.rows || x.beyond != y.beyond) return "sequence";
    for (std::size_t m = 0; m < kRowMetricCount; ++m) {
      const Moments& p = x.metrics[m];
      const Moments& q = y.metrics[m];
      const double size = std::max(std::abs(p.min), std::abs(p.max));
      const bool same = p.n == q.n && near(p.min, q.min, size) && near(p.max, q.max, size) &&
                        near(p.sum, q.sum, size * static_cast<double>(p.n));
      if (!same) return std::string(schema::to_string(static_cast<Metric>(m))) + " of a sequence";
    }
    if (x.target.n != y.target.n) return "target tokens";
    if (!near(x.target.w, y.target.w, x.target.w)) return "w";
  }
  return "";
}

struct Captures {
  TemporaryFolder folder;
  Capture train, inf;
  explicit Captures(const Shape& shape = {})
      : train(written(random_draft(shape, false), folder / "a")),
        inf(written(random_draft(shape, true), folder / "b")) {}
  MeasurementTable single(const MeasureOptions& options) const {
    auto table = measure(train, inf, nullptr, options);
    if (!table) FAIL(table.error().describe());
    return std::move(*table);
  }
  schema::Result<MeasurementTable> split(Shard shard, std::uint32_t ranks, const MeasureOptions& options,
                                         const RowSink& sink = {}) const {
    RankOptions how;
    how.shard = shard;
    return measure_in_threads(train, inf, nullptr, options, how, std::vector<std::string>(ranks, "cpu"), {},
                              sink)
        .table;
  }
};

MeasureOptions options_of(std::uint32_t threads = 1) {
  MeasureOptions options;
  options.threads = threads;
  options.thresholds = {{Metric::tv, 0.01, true}, {Metric::kl_inf_train, 1e-3, true}};
  return options;
}

}  // namespace

TEST_CASE("every layout of rows, columns, ranks and threads gives the table of one rank") {
  Shape shapes[6];
  shapes[1].noise = 1e-6;
  shapes[2].ties = true;
  shapes[3].masks = true, shapes[3].columns = 2'500;
  shapes[4].tokens = false, shapes[4].noise = 3;
  shapes[5].columns = 5, shapes[5].rows = 20;
  for (const Shape& shape : shapes) {
    const Captures pair(shape);
    const MeasurementTable one = pair.single(options_of());
    for (const Shard shard : {Shard::rows, Shard::vocab}) {
      for (const std::uint32_t ranks : {1U, 2U, 3U, 5U}) {
        std::string before;
        for (const std::uint32_t threads : {1U, 8U}) {
          CAPTURE(kSeed);
          CAPTURE(shape.columns);
          CAPTURE(shape.noise);
          CAPTURE(static_cast<int>(shard));
          CAPTURE(ranks);
          CAPTURE(threads);
          auto table = pair.split(shard, ranks, options_of(threads));
          if (!table) FAIL(table.error().describe());
          REQUIRE(difference(one, *table) == "");
          REQUIRE(table->worst_rows.size() == one.worst_rows.size());
          // The same layout of ranks gives the same bits, whatever the threads.
          const std::string bytes = serialise(*table);
          CHECK((before.empty() || before == bytes));
          before = bytes;
          if (shard == Shard::vocab) continue;
          // Whole sequences on each rank: only sums over all rows are rounded differently.
          table->profile = one.profile;
          CHECK(serialise(*table) == serialise(one));
        }
      }
    }
  }
}

TEST_CASE("ranks that cannot exchange in steps do so in a thread of their own and give the same bits") {
  /// As MPI: whole exchanges only.
  class Whole final : public Collective {
   public:
    explicit Whole(Collective& inner) : inner_(inner) {}
    [[nodiscard]] std::uint32_t rank() const override { return inner_.rank(); }
    [[nodiscard]] std::uint32_t size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return "whole"; }
    schema::Result<void> all_gather(const Wait& wait, std::span<const std::byte> mine,
                                    std::span<std::byte> all) override {
      return inner_.all_gather(wait, mine, all);
    }
    schema::Result<void> gather(const Wait& wait, std::span<const std::byte> mine,
                                std::span<std::byte> all) override {
      return inner_.gather(wait, mine, all);
    }
    schema::Result<void> broadcast(const Wait& wait, std::span<std::byte> bytes) override {
      return inner_.broadcast(wait, bytes);
    }
    void leave(const schema::Error& error) override { inner_.leave(error); }

   private:
    Collective& inner_;
  };
  const Captures pair;
  RankOptions how;
  how.shard = Shard::vocab;
  std::string bytes;
  const auto run = run_in_threads(3, [&](Collective& collective) -> schema::Result<void> {
    Whole whole(collective);
    auto table = measure_rank(whole, pair.train, pair.inf, nullptr, options_of(), how);
    if (!table) return std::unexpected(table.error());
    if (collective.rank() == 0) bytes = serialise(**table);
    return {};
  });
  if (!run.result) FAIL(run.result.error().describe());
  const auto in_steps = pair.split(Shard::vocab, 3, options_of());
  REQUIRE(in_steps);
  CHECK(bytes == serialise(*in_steps));
}

TEST_CASE("captures in several files and rows that are not finite are split like others") {
  TemporaryFolder folder;
  const CaptureDraft train = random_draft({}, false);
  CaptureDraft inf = random_draft({}, true);
  inf.logits[40 * 300 + 150] = std::numeric_limits<float>::quiet_NaN();
  inf.write_parts(folder / "parts", {33, 34, 90});
  const Capture a = written(train, folder / "a");
  const auto b = Capture::open(folder / "parts");
  REQUIRE(b);
  const auto one = measure(a, *b, nullptr, options_of());
  REQUIRE(one);
  CHECK(one->nonfinite_rows == 1);
  for (const Shard shard : {Shard::rows, Shard::vocab}) {
    RankOptions how;
    how.shard = shard;
    const auto table = measure_in_threads(a, *b, nullptr, options_of(), how, {"cpu", "cpu", "cpu"}).table;
    if (!table) FAIL(table.error().describe());
    CHECK(difference(*one, *table) == "");
    CHECK(table->worst_rows.front().row == 40);
  }
}

TEST_CASE("figures of single rows come in order when columns are split and are refused when rows are") {
  const Captures pair;
  std::uint64_t next = 0;
  const RowSink sink = [&next](std::uint64_t first, std::span<const driftgate_row> rows) {
    CHECK(first == next);
    next += rows.size();
    return schema::Result<void>{};
  };
  REQUIRE(pair.split(Shard::vocab, 2, options_of(), sink));
  CHECK(next == 90);
  const auto refused = pair.split(Shard::rows, 2, options_of(), sink);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == schema::ErrorCode::unsupported);
  // An error of the sink is the error of the measurement.
  const auto full = pair.split(Shard::vocab, 3, options_of(), [](std::uint64_t, auto) {
    return schema::Result<void>(schema::fail(schema::ErrorCode::storage_full, "no space"));
  });
  REQUIRE_FALSE(full);
  CHECK(full.error().code == schema::ErrorCode::storage_full);
  CHECK(full.error().describe() == "no space (at rank 0 of 3)");
}

TEST_CASE("the error of one rank is the error of all, with its rank and its row in the whole capture") {
  TemporaryFolder folder;
  CaptureDraft train = random_draft({}, false), inf = random_draft({}, true);
  for (CaptureDraft* draft : {&train, &inf}) {
    for (std::size_t v = 0; v < 300; ++v)
      draft->logits[80 * 300 + v] = -std::numeric_limits<float>::infinity();
  }
  const Capture a = written(train, folder / "a"), b = written(inf, folder / "b");
  RankOptions how;
  const auto rows = measure_in_threads(a, b, nullptr, options_of(), how, {"cpu", "cpu", "cpu"});
  REQUIRE_FALSE(rows.table);
  CHECK(rows.abandoned == 0);
  CHECK(rows.table.error().code == schema::ErrorCode::invalid_capture);
  CHECK(rows.table.error().describe().find("row 80 (sequence 11, position 3)") != std::string::npos);
  CHECK(rows.table.error().describe().find("rank 2 of 3") != std::string::npos);
  how.shard = Shard::vocab;
  const auto columns = measure_in_threads(a, b, nullptr, options_of(), how, {"cpu", "cpu"});
  REQUIRE_FALSE(columns.table);
  CHECK(columns.table.error().describe().find("row 80 (sequence 11, position 3)") != std::string::npos);
}

TEST_CASE("an absent device and more ranks than columns are errors that name them") {
  Shape narrow;
  narrow.columns = 3;
  const Captures pair(narrow);
  const auto many = pair.split(Shard::vocab, 4, options_of());
  REQUIRE_FALSE(many);
  CHECK(many.error().describe().find("3 columns cannot be split over 4 ranks") != std::string::npos);
  RankOptions how;
  const auto absent =
      measure_in_threads(pair.train, pair.inf, nullptr, options_of(), how, {"cpu", "cuda:77"}).table;
  REQUIRE_FALSE(absent);
  CHECK(absent.error().describe().find("rank 1 of 2") != std::string::npos);
}

TEST_CASE("a rank with other captures or options is an error that names the rank") {
  const Captures pair, other(Shape{.rows = 80});
  const auto run = run_in_threads(3, [&](Collective& collective) -> schema::Result<void> {
    const Captures& mine = collective.rank() == 1 ? other : pair;
    const auto table = measure_rank(collective, mine.train, mine.inf, nullptr, options_of(), {});
    return table ? schema::Result<void>{} : std::unexpected(table.error());
  });
  REQUIRE_FALSE(run.result);
  CHECK(run.result.error().code == schema::ErrorCode::not_comparable);
  CHECK(run.result.error().describe().find("rank 1 of 3") != std::string::npos);
}

TEST_CASE("the rows of hidden states are split like those of logits, and their vocabulary is not") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 40; ++i) {
    const HiddenCase test = random_hidden_case(random);
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const TemporaryFolder folder;
    test.write(folder);
    const auto train = Capture::open(folder / "train.safetensors");
    const auto inf = Capture::open(folder / "inf.safetensors");
    REQUIRE(train);
    REQUIRE(inf);
    const auto one = measure(*train, *inf, nullptr, options_of());
    REQUIRE(one);
    RankOptions how;
    const auto many = measure_in_threads(*train, *inf, nullptr, options_of(), how, {"cpu", "cpu", "cpu"});
    if (!many.table) FAIL(many.table.error().describe());
    CHECK(difference(*one, *many.table) == "");
    how.shard = Shard::vocab;
    const auto columns = measure_in_threads(*train, *inf, nullptr, options_of(), how, {"cpu", "cpu"}).table;
    REQUIRE_FALSE(columns);
    CHECK(columns.error().code == schema::ErrorCode::unsupported);
    CHECK(columns.error().message.find("hidden mode cannot be split") != std::string::npos);
  }
}
