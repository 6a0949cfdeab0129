// What each rank sends, counted at the collective: the figures of docs/ranks.md.

#include <doctest/doctest.h>

#include <random>

#include "gpu/measure_rows.hpp"
#include "gpu/ranks/ranked_drift.hpp"
#include "gpu/ranks/thread_ranks.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kRows = 96;
constexpr std::uint64_t kColumns = 256;
constexpr std::uint64_t kOfSequence = 4;
constexpr std::uint32_t kRanks = 4, kTopK = 10;

/// Bytes that one rank gives to each kind of exchange.
struct Sent {
  std::uint64_t all_gather = 0, gather = 0, broadcast = 0, exchanges = 0;
};

/// Counts what it hands on. Whole exchanges only, as between processes.
class Counting final : public Collective {
 public:
  Counting(Collective& inner, Sent& sent) : inner_(inner), sent_(sent) {}
  [[nodiscard]] std::uint32_t rank() const override { return inner_.rank(); }
  [[nodiscard]] std::uint32_t size() const override { return inner_.size(); }
  [[nodiscard]] std::string name() const override { return "counting"; }
  schema::Result<void> all_gather(const Wait& wait, std::span<const std::byte> mine,
                                  std::span<std::byte> all) override {
    sent_.all_gather += mine.size(), ++sent_.exchanges;
    return inner_.all_gather(wait, mine, all);
  }
  schema::Result<void> gather(const Wait& wait, std::span<const std::byte> mine,
                              std::span<std::byte> all) override {
    sent_.gather += mine.size(), ++sent_.exchanges;
    return inner_.gather(wait, mine, all);
  }
  schema::Result<void> broadcast(const Wait& wait, std::span<std::byte> bytes) override {
    sent_.broadcast += bytes.size(), ++sent_.exchanges;
    return inner_.broadcast(wait, bytes);
  }
  void leave(const schema::Error& error) override { inner_.leave(error); }

 private:
  Collective& inner_;
  Sent& sent_;
};

Capture capture(const std::filesystem::path& path, double noise) {
  CaptureDraft draft;
  draft.vocabulary = kColumns;
  std::mt19937 logits(1), other(2);
  std::normal_distribution<float> normal;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    std::vector<float> values;
    for (std::uint64_t v = 0; v < kColumns; ++v) {
      const float z = 3 * normal(logits);
      values.push_back(z + static_cast<float>(noise) * normal(other));
    }
    draft.add_row(static_cast<std::int32_t>(row / kOfSequence), static_cast<std::int32_t>(row % kOfSequence),
                  1, values);
  }
  draft.write(path);
  auto opened = Capture::open(path);
  if (!opened) FAIL(opened.error().describe());
  return std::move(*opened);
}

struct Outcome {
  std::vector<Sent> sent{kRanks};
  MeasurementTable table;
};

Outcome measured(Shard shard) {
  const TemporaryFolder folder;
  const Capture train = capture(folder / "a", 0), inf = capture(folder / "b", 0.01);
  MeasureOptions options;
  options.threads = 1;
  options.top_k = kTopK;
  RankOptions how;
  how.shard = shard;
  Outcome out;
  const auto run = run_in_threads(kRanks, [&](Collective& inner) -> schema::Result<void> {
    Counting counting(inner, out.sent[inner.rank()]);
    auto table = measure_rank(counting, train, inf, nullptr, options, how);
    if (!table) return std::unexpected(table.error());
    if (*table) out.table = std::move(**table);
    return {};
  });
  if (!run.result) FAIL(run.result.error().describe());
  return out;
}

constexpr std::uint64_t kAgreement = 8;  ///< the digest of captures and options

}  // namespace

TEST_CASE("ranks that share columns send 688 bytes a row in pass 1 and 240 in pass 2, with top-10 lists") {
  const std::uint64_t pass1 = sizeof(driftgate_shard_partial) + 2 * kTopK * sizeof(driftgate_top_entry);
  CHECK(pass1 == 688);
  CHECK(sizeof(driftgate_shard_terms) == 240);
  for (const Sent& sent : measured(Shard::vocab).sent) {
    constexpr std::uint64_t kBatch = 8;  ///< the number of rows that each rank proposes for a batch
    CHECK(sent.all_gather == kAgreement + kBatch + kRows * pass1);
    CHECK(sent.gather == kRows * sizeof(driftgate_shard_terms));
    CHECK(sent.broadcast == 0);
  }
}

TEST_CASE("ranks that share rows send 8 bytes a batch and their tables") {
  const Outcome outcome = measured(Shard::rows);
  const std::uint64_t batches = 1, sizes = 8;  // 24 rows of 256 columns are one batch of a rank
  std::uint64_t tables = 0;
  for (const Sent& sent : outcome.sent) {
    CHECK(sent.all_gather == kAgreement + 8 * batches + sizes);
    CHECK(sent.gather == outcome.sent[0].gather);  // all as long as the longest
    CHECK(sent.broadcast == 0);
    CHECK(sent.exchanges == 4);
    tables += sent.gather;
  }
  // A table grows with its sequences, not with its rows or columns: beside what is of fixed size, less than
  // 1,500 bytes for each.
  MeasurementTable half = outcome.table;
  half.sequences.resize(half.sequences.size() / 2), half.infos.resize(half.sequences.size());
  const std::uint64_t removed = outcome.table.sequences.size() - half.sequences.size();
  const std::uint64_t of_sequence = (serialise(outcome.table).size() - serialise(half).size()) / removed;
  CAPTURE(of_sequence);
  CAPTURE(tables);
  CHECK(of_sequence > 800);
  CHECK(of_sequence < 1'500);
}
