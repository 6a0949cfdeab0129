#include <doctest/doctest.h>

#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <random>

#include "gpu/chunks/chunked_table.hpp"
#include "gpu/drift.hpp"
#include "gpu/ranks/ranked_drift.hpp"
#include "tests/gpu/fused/hidden_case.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint32_t kSeed = 47;

/// Keeps chunks in memory, and tells the measurement to stop after some of them.
class MemoryStore final : public ChunkStore {
 public:
  std::optional<std::string> find(const std::string& name, const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = kept.find(name);
    if (found == kept.end() || found->second.key != key) return std::nullopt;
    ++taken;
    return found->second.bytes;
  }
  schema::Result<void> keep(const std::string& name, const std::string& key, std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    ++measured;
    kept[name] = {key, std::string(bytes)};
    return {};
  }
  [[nodiscard]] bool full() {
    const std::lock_guard lock(mutex_);
    return measured >= most;
  }
  struct Kept {
    std::string key, bytes;
  };
  std::map<std::string, Kept> kept;
  std::size_t measured = 0, taken = 0, most = std::numeric_limits<std::size_t>::max();

 private:
  std::mutex mutex_;
};

struct Shape {
  std::size_t rows = 90;
  std::uint64_t columns = 70;
  double noise = 0.05;
  bool interleaved = false, nonfinite = false;
};

CaptureDraft draft_of(const Shape& shape, bool inf) {
  CaptureDraft draft;
  draft.metadata["kernel"] = inf ? "inf" : "train";
  draft.vocabulary = shape.columns;
  std::mt19937 logits(kSeed), other(kSeed + 1);
  std::normal_distribution<float> normal;
  for (std::size_t row = 0; row < shape.rows; ++row) {
    std::vector<float> values;
    for (std::size_t v = 0; v < shape.columns; ++v) {
      const float z = 4 * normal(logits), noise = static_cast<float>(shape.noise) * normal(other);
      values.push_back(inf ? z + noise : z);
    }
    if (shape.nonfinite && row % 31 == 5) values[1] = std::numeric_limits<float>::quiet_NaN();
    // Interleaved: two sequences of 14 rows alternate, so that they can be cut only behind both.
    const std::size_t sequence = shape.interleaved ? row / 14 * 2 + row % 2 : row / 7;
    draft.add_row(static_cast<std::int32_t>(sequence), static_cast<std::int32_t>(row % 7),
                  static_cast<std::int32_t>(row * 17 % shape.columns), values);
  }
  return draft;
}

Capture opened(const CaptureDraft& draft, const std::filesystem::path& path) {
  draft.write(path);
  auto capture = Capture::open(path);
  if (!capture) FAIL(capture.error().describe());
  return std::move(*capture);
}

struct Captures {
  TemporaryFolder folder;
  Capture train, inf;
  explicit Captures(const Shape& shape = {})
      : train(opened(draft_of(shape, false), folder / "a")), inf(opened(draft_of(shape, true), folder / "b")) {}
};

Corpus corpus_of(const Capture& capture) {
  std::string text;
  std::int64_t before = -1;
  for (std::int64_t id = 0; id < 60; ++id) {
    if (std::ranges::find(capture.sequence_ids(), id) == capture.sequence_ids().end()) continue;
    text += R"({"sequence": )" + std::to_string(id) + R"(, "slices": {"language": ")" + (id % 3 == 0 ? "de" : "en") +
            "\"}}\n";
    before = id;
  }
  REQUIRE(before >= 0);
  auto corpus = parse_corpus(text, "corpus");
  if (!corpus) FAIL(corpus.error().describe());
  return std::move(*corpus);
}

MeasureOptions options_of(ChunkStore* store = nullptr, std::uint64_t bytes = kChunkBytes) {
  MeasureOptions out;
  out.threads = 2;
  out.top_rows = 9;
  out.thresholds = {{Metric::tv, 0.01, true}, {Metric::kl_inf_train, 1e-3, true}};
  out.slices = std::vector<SliceAttributes>{{{"language", "de"}}, {{"language", "fr"}}};
  out.chunking.store = store;
  out.chunking.name = "table";
  out.chunking.bytes = bytes;
  return out;
}

/// Interrupted after every `step` chunks and started again until it is done. The bytes of the table.
std::string in_steps(const Capture& train, const Capture& inf, const Corpus* corpus, MeasureOptions options,
                     MemoryStore& store, std::size_t step) {
  options.chunking.stop = [&store] { return store.full(); };
  for (int starts = 0; starts < 200; ++starts) {
    store.most = store.measured + step;
    auto table = measure(train, inf, corpus, options);
    if (table) return serialise(*table);
    if (!is_interruption(table.error())) FAIL(table.error().describe());
  }
  FAIL("it never ends");
  return {};
}

}  // namespace

TEST_CASE("a measurement in chunks, interrupted anywhere, has the bits of one in one go and measures no chunk twice") {
  Shape shapes[4];
  shapes[1].interleaved = true;
  shapes[2].nonfinite = true, shapes[2].rows = 33;
  shapes[3].rows = 7;  // one sequence, one chunk
  for (const Shape& shape : shapes) {
    const Captures pair(shape);
    const Corpus corpus = corpus_of(pair.train);
    for (const Corpus* known : {static_cast<const Corpus*>(nullptr), &corpus}) {
      const auto whole = measure(pair.train, pair.inf, known, options_of());
      if (!whole) FAIL(whole.error().describe());
      const std::string expected = serialise(*whole);
      for (const std::uint64_t rows : {1U, 10U, 20U, 1'000U}) {
        const std::uint64_t bytes = rows * 8 * shape.columns;
        const std::size_t chunks = chunk_ranges(pair.train.sequence_ids(), rows).size();
        for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{100}}) {
          CAPTURE(shape.rows);
          CAPTURE(shape.interleaved);
          CAPTURE(rows);
          CAPTURE(step);
          MemoryStore store;
          CHECK(in_steps(pair.train, pair.inf, known, options_of(&store, bytes), store, step) == expected);
          CHECK(store.measured == (chunks > 1 ? chunks : 0));  // what is one chunk is not worth keeping
        }
      }
    }
  }
}

TEST_CASE("chunks of hidden states have the bits of one go") {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 12; ++i) {
    const HiddenCase test = random_hidden_case(random);
    CAPTURE(i);
    CAPTURE(test.text);
    const TemporaryFolder folder;
    const OpenedCase pair = open_case(test, folder);
    MeasureOptions options = options_of();
    options.slices.reset();
    const auto whole = measure(pair.train, pair.inf, nullptr, options);
    if (!whole) FAIL(whole.error().describe());
    MemoryStore store;
    options.chunking = {&store, "table", 1, {}};
    CHECK(in_steps(pair.train, pair.inf, nullptr, options, store, 1) == serialise(*whole));
  }
}

TEST_CASE("chunks of other captures or options, damaged ones and ones that lie are measured again") {
  const Captures pair;
  const std::uint64_t bytes = 10 * 8 * 70;
  const auto expected = measure(pair.train, pair.inf, nullptr, options_of());
  REQUIRE(expected);
  MemoryStore store;
  const auto run = [&](const MeasureOptions& options) {
    store.measured = store.taken = 0;
    auto table = measure(pair.train, pair.inf, nullptr, options);
    if (!table) FAIL(table.error().describe());
    return serialise(*table);
  };
  const std::string bits = run(options_of(&store, bytes));
  const std::size_t chunks = store.measured;
  REQUIRE(chunks == 7);
  CHECK(run(options_of(&store, bytes)) == bits);
  CHECK(store.measured == 0);
  CHECK(store.taken == chunks);

  // Each of these decides the bits of the table, or where it is cut.
  std::vector<MeasureOptions> others(7, options_of(&store, bytes));
  others[0].top_k = 5;
  others[1].ppo_clip = std::nextafter(others[1].ppo_clip, 1);
  others[2].is_clip = 0.1;
  others[3].thresholds[0].value = 0.02;
  others[4].slices = std::vector<SliceAttributes>{};
  others[5].top_rows = 3;
  others[6].chunking.bytes = 2 * bytes;
  const auto kept = store.kept;
  for (std::size_t i = 0; i < others.size(); ++i) {
    CAPTURE(i);
    store.kept = kept;
    (void)run(others[i]);
    CHECK(store.taken == 0);
    CHECK(store.measured > 0);
  }
  store.kept = kept;
  store.taken = 0;
  REQUIRE(measure(pair.inf, pair.train, nullptr, options_of(&store, bytes)));
  CHECK(store.taken == 0);

  // Bytes that the store takes for whole: every kind of damage is measured again and gives the same bits.
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const std::string name = "table-000" + std::to_string(chunk);
    const std::string whole = kept.at(name).bytes;
    auto table = deserialise(whole);
    REQUIRE(table);
    std::vector<std::string> lies = {"", whole.substr(0, whole.size() - 1), whole + "x", "DGMT"};
    const auto lie = [&](auto change) {
      MeasurementTable changed = *table;
      change(changed);
      lies.push_back(serialise(changed));
    };
    lie([](MeasurementTable& t) { ++t.rows; });
    lie([](MeasurementTable& t) { t.sequences.back().sequence += 1'000; });
    lie([](MeasurementTable& t) { t.sequences.pop_back(), t.infos.pop_back(); });
    lie([](MeasurementTable& t) { t.train.kernel = "another"; });
    lie([](MeasurementTable& t) { t.worst_rows.front().row = 1'000; });
    lie([](MeasurementTable& t) { t.worst_rows.front().sequence += 1; });
    lie([](MeasurementTable& t) { t.slices.pop_back(); });
    lie([](MeasurementTable& t) { t.partial.mode = "topk"; for (auto& s : t.sequences) s.bounds.emplace().maybe_beyond.resize(2); });
    for (std::size_t i = 0; i < lies.size(); ++i) {
      CAPTURE(chunk);
      CAPTURE(i);
      store.kept = kept;
      store.kept.at(name).bytes = lies[i];
      CHECK(run(options_of(&store, bytes)) == bits);
      CHECK(store.measured == 1);
    }
  }
}

TEST_CASE("ranks go on where they were interrupted, with the bits of the same ranks in one go") {
  Shape shape;
  shape.columns = 130;
  const Captures pair(shape);
  for (const Shard shard : {Shard::rows, Shard::vocab}) {
    for (const std::uint32_t ranks : {2U, 3U}) {
      RankOptions how;
      how.shard = shard;
      const std::vector<std::string> devices(ranks, "cpu");
      const auto whole = measure_in_threads(pair.train, pair.inf, nullptr, options_of(), how, devices).table;
      if (!whole) FAIL(whole.error().describe());
      for (const std::size_t step : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
        CAPTURE(static_cast<int>(shard));
        CAPTURE(ranks);
        CAPTURE(step);
        MemoryStore store;
        MeasureOptions options = options_of(&store, 10 * 8 * shape.columns);
        options.chunking.stop = [&store] { return store.full(); };
        std::optional<MeasurementTable> table;
        std::size_t starts = 0;
        for (; starts < 100 && !table; ++starts) {
          store.most = store.measured + step;
          auto done = measure_in_threads(pair.train, pair.inf, nullptr, options, how, devices);
          REQUIRE(done.abandoned == 0);
          if (done.table) {
            table = std::move(*done.table);
          } else {
            if (!is_interruption(done.table.error())) FAIL(done.table.error().describe());
          }
        }
        REQUIRE(table);
        CHECK(serialise(*table) == serialise(*whole));
        CHECK(store.measured == store.kept.size());  // no chunk twice
        CHECK((step == 100 ? starts == 1 : starts > 1));
      }
    }
  }
}

TEST_CASE("a measurement that is told to stop before its first chunk measures nothing") {
  const Captures pair;
  MemoryStore store;
  MeasureOptions options = options_of(&store);
  options.chunking.stop = [] { return true; };
  std::uint64_t rows = 0;
  const auto table =
      measure(pair.train, pair.inf, nullptr, options, [&](std::uint64_t done, std::uint64_t) { rows = done; });
  REQUIRE_FALSE(table);
  CHECK(is_interruption(table.error()));
  CHECK(is_interruption(at_rank(table.error(), 1, 4)));
  CHECK_FALSE(is_interruption({schema::ErrorCode::unavailable, "something else", {}, nullptr}));
  CHECK(rows == 0);
}

TEST_CASE("chunks end where no sequence goes on, and hidden states have fewer rows in each") {
  const std::vector<std::int64_t> ids = {1, 1, 2, 2, 2, 3, 4, 3, 4, 5};
  CHECK(chunk_ranges(ids, 1) == std::vector<Range>{{0, 2}, {2, 5}, {5, 9}, {9, 10}});
  CHECK(chunk_ranges(ids, 3) == std::vector<Range>{{0, 5}, {5, 9}, {9, 10}});
  CHECK(chunk_ranges(ids, 100) == std::vector<Range>{{0, 10}});
  CHECK(chunk_ranges({}, 3).empty());
  const Captures pair;
  CHECK(rows_of_chunk(pair.train, 8 * 70 * 12) == 12);
  CHECK(rows_of_chunk(pair.train, 1) == 1);
}
