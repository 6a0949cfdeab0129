#include <doctest/doctest.h>

#include "tests/gpu/emulated_rows.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/shards.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261123;

/// An emulated device that holds the columns [first, end) of one row.
class Part {
 public:
  Part(const Case& test, std::uint32_t first, std::uint32_t end, const Shape& shape)
      : shape_(shape),
        size_(std::max<std::uint32_t>(test.pair.top_k, 2)),
        staged_(part_of(test, first, end)) {
    parts_.resize(shape.blocks);
    lists_.resize(std::size_t{2} * shape.blocks * size_);
    cuda::BatchView& view = staged_.view;
    token_ = *test.pair.token;
    view.tokens = &token_;
    const bool suits = view.train_dtype == view.inf_dtype && view.temperature == 1.0 &&
                       view.columns >= 1'000 && size_ <= cuda::kMaxFastTopK;
    scratch_ = {&row_, parts_.data(), lists_.data(), &wide_, {}, shape.blocks, size_, suits};
    scratch_.shard.first_column = first;
  }
  /// Pass 1; whether the float32 form took it.
  bool first(driftgate_shard_partial& partial, driftgate_top_entry* top, std::uint64_t seed) {
    scratch_.shard.partials = &partial;
    scratch_.shard.top = top;
    staged_.view.mode = cuda::Mode::shard_first;
    run_fast(seed);
    const bool fast = scratch_.fast && cuda::finish_fast_part(staged_.view, scratch_, 0);
    run_wide(seed);
    if (!fast) cuda::finish_wide_partial(staged_.view, scratch_, 0);
    // As the backend does: the float64 form writes its entries in no order.
    for (driftgate_top_entry* list : {top, top + size_}) {
      std::sort(list, list + partial.top_train, [](const auto& a, const auto& b) {
        return a.value > b.value || (a.value == b.value && a.id < b.id);
      });
    }
    return fast;
  }
  void second(const driftgate_shard_row& merged, driftgate_shard_terms& terms, std::uint64_t seed) {
    scratch_.shard.merged = &merged;
    scratch_.shard.terms = &terms;
    staged_.view.mode = cuda::Mode::shard_second;
    run_fast(seed);
    run_wide(seed);
    cuda::finish_terms(scratch_, 0);
  }

 private:
  static Case part_of(const Case& test, std::uint32_t first, std::uint32_t end) {
    Case out = test;
    const auto cut = [&](Stored& stored) {
      const std::size_t bytes = cuda::element_bytes(stored.dtype);
      stored.values = {stored.values.begin() + first, stored.values.begin() + end};
      stored.bytes = {stored.bytes.begin() + static_cast<std::ptrdiff_t>(first * bytes),
                      stored.bytes.begin() + static_cast<std::ptrdiff_t>(1 + end * bytes)};
    };
    cut(out.train), cut(out.inf);
    out.pair.train = out.train.values, out.pair.inf = out.inf.values;
    return out;
  }
  void run_fast(std::uint64_t seed) {
    if (!scratch_.fast) return;
    EmulatedCluster cluster(shape_.blocks, shape_.threads, shape_.cache, seed);
    by_dtype(staged_.view.train_dtype, [&](auto dtype) {
      cluster.run([&](EmulatedThread& thread) {
        cuda::measure_row<decltype(dtype)::value>(thread, staged_.view, scratch_, 0, shape_.cache);
      });
    });
  }
  void run_wide(std::uint64_t seed) {
    EmulatedCluster cluster(1, 64, 0, seed);
    cluster.run([&](EmulatedThread& thread) { cuda::measure_wide(thread, staged_.view, scratch_, 0); });
  }

  Shape shape_;
  std::uint32_t size_;
  Staged staged_;
  std::int64_t token_ = 0;
  cuda::FastRow row_{};
  cuda::RowSums wide_{};
  std::vector<cuda::FastPart> parts_;
  std::vector<cuda::TopEntry> lists_;
  cuda::BatchScratch scratch_{};
};

/// The row of several emulated devices, merged as the program merges it.
driftgate_row evaluate_parts(const Case& test, const Cuts& cuts, const Shape& shape, int& fast) {
  const auto ranks = static_cast<std::uint32_t>(cuts.size());
  const ShardMerger merger(ranks, test.pair.top_k, test.pair.temperature);
  const std::size_t bytes = merger.partial_bytes(1);
  std::vector<std::byte> messages(ranks * bytes);
  std::vector<std::unique_ptr<Part>> parts;
  for (std::uint32_t rank = 0, first = 0; rank < ranks; first = cuts[rank++]) {
    parts.push_back(std::make_unique<Part>(test, first, cuts[rank], shape));
    const std::span message(messages.data() + rank * bytes, bytes);
    fast += parts[rank]->first(ShardMerger::partials(message, 1)[0], merger.top(message, 1).data(), kSeed)
                ? 1
                : 0;
  }
  std::vector<driftgate_shard_row> merged(1);
  std::vector<driftgate_shard_terms> terms(ranks);
  merger.merge(messages, merged);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) parts[rank]->second(merged[0], terms[rank], kSeed + 1);
  std::vector<driftgate_row> rows(1);
  merger.finish(messages, merged, terms, rows);
  return rows[0];
}

}  // namespace

TEST_CASE("rows split over emulated devices are those of the oracle, in either form") {
  std::mt19937_64 random(kSeed);
  int fast = 0;
  for (int i = 0; i < 160; ++i) {
    const Case test = i % 2 == 0 ? random_case(random) : peaked_case(random);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    const Cuts cuts = random_cuts(random, static_cast<std::uint32_t>(test.pair.train.size()), 3);
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    CAPTURE(cuts.size());
    CAPTURE(cuts[0]);
    const driftgate_row row = evaluate_parts(test, cuts, {1U << (i % 3), 64, 4'096}, fast);
    REQUIRE(row.status == DRIFTGATE_ROW_OK);
    REQUIRE(disagreement(oracle(test.pair), row.values) == "");
    REQUIRE(row.head_tail_tv >= row.values[static_cast<std::size_t>(Metric::tv)] * (1 - 1e-6));
  }
  CHECK(fast > 30);
}

TEST_CASE("a part without unmasked columns and one with a NaN are reported as by the CPU") {
  Case test;
  std::vector<double> train(3'000, 0.5), inf(3'000, 0.25);
  for (std::size_t v = 1'500; v < 3'000; ++v) train[v] = inf[v] = kMasked;
  const auto measure = [&] {
    test.train = store(train, DRIFTGATE_F32), test.inf = store(inf, DRIFTGATE_F32);
    test.pair = {test.train.values, test.inf.values, 1, 3, 10};
    int fast = 0;
    return evaluate_parts(test, {1'500, 3'000}, {}, fast);
  };
  const driftgate_row row = measure();
  CHECK(row.status == DRIFTGATE_ROW_OK);
  CHECK(row.values[static_cast<std::size_t>(Metric::tv)] == 0);
  inf[2'999] = std::numeric_limits<double>::quiet_NaN();
  const driftgate_row broken = measure();
  CHECK(broken.status == DRIFTGATE_ROW_NONFINITE);
  CHECK(broken.values[static_cast<std::size_t>(Metric::nonfinite)] == 2);  // the mask is in one kernel only
}
