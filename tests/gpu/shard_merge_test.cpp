#include "gpu/ranks/shard_merge.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "gpu/backend/backend_loader.hpp"
#include "tests/gpu/effort.hpp"
#include "tests/gpu/kernels.hpp"
#include "tests/gpu/shards.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 4'711;

/// The first figure of which two layouts say something else, beyond what docs/design/measurement.md, "Error
/// bounds", allows.
std::string difference(const driftgate_row& whole, const driftgate_row& split) {
  for (std::size_t i = 0; i < kRowMetricCount; ++i) {
    const double a = whole.values[i], b = split.values[i];
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::isinf(a) && a == b) continue;
    // 1e-6 is the accuracy that the design asks of every layout; 1e-12 is its floor for log-ratios and spans.
    // The error of a log-ratio is a part of the row's mean |log-ratio|, about twice tv.
    double size = std::abs(a);
    if (static_cast<Metric>(i) == Metric::log_ratio)
      size = std::max(size, 2 * whole.values[static_cast<std::size_t>(Metric::tv)]);
    // Sums in float32 about the likely tokens' drift leave logit_rms up to 1e-5, of the 1e-4 that it may
    // have.
    const double relative = static_cast<Metric>(i) == Metric::logit_rms ? 1e-5 : 1e-6;
    if (!(std::abs(a - b) <= std::max(relative * size, 1e-12)))
      return std::string(schema::to_string(static_cast<Metric>(i))) + ": " + std::to_string(a) + " and " +
             std::to_string(b) + ", difference " + std::to_string((a - b) / a);
  }
  if (!(std::abs(whole.top_train - split.top_train) <= 1e-6 * whole.top_train)) return "top_train";
  if (!(std::abs(whole.top_inf - split.top_inf) <= 1e-6 * whole.top_inf)) return "top_inf";
  return whole.status == split.status ? "" : "status";
}

void check_split(const cpu::TileKernel& kernel, const Case& test, std::mt19937_64& random) {
  const auto vocabulary = static_cast<std::uint32_t>(test.pair.train.size());
  const Cuts cuts = random_cuts(random, vocabulary, 5);
  CAPTURE(kernel.name);
  CAPTURE(kSeed);
  CAPTURE(test.text);
  CAPTURE(cuts.size());
  CAPTURE(cuts[0]);
  const driftgate_row split = evaluate_split(kernel, test, cuts);
  REQUIRE(split.status == DRIFTGATE_ROW_OK);
  REQUIRE(disagreement(oracle(test.pair), split.values) == "");
  REQUIRE(difference(evaluate(kernel, test), split) == "");
  // 1e-15 is what tv itself may be off by: parts of two kinds weigh columns 60 nats below the top unlike.
  REQUIRE(split.head_tail_tv >= split.values[static_cast<std::size_t>(Metric::tv)] - 1e-15);
  const driftgate_row again = evaluate_split(kernel, test, cuts);
  REQUIRE(std::memcmp(&again, &split, sizeof(split)) == 0);
}

}  // namespace

TEST_CASE("rows split over engines at random columns are those of one engine and of the oracle") {
  for (const cpu::TileKernel* kernel : kernels()) {
    std::mt19937_64 random(kSeed);
    for (int i = 0; i < effort(300); ++i) {
      const Case test = random_case(random);
      if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
      CAPTURE(i);
      check_split(*kernel, test, random);
    }
  }
}

TEST_CASE("rows like those of language models split alike") {
  for (const cpu::TileKernel* kernel : kernels()) {
    std::mt19937_64 random(kSeed + 1);
    for (int i = 0; i < effort(300); ++i) {
      const Case test = peaked_case(random);
      CAPTURE(i);
      check_split(*kernel, test, random);
    }
  }
}

TEST_CASE("rows of any drift split alike, also where the parts' float32 sums leave an offset to correct") {
  for (const cpu::TileKernel* kernel : kernels()) {
    std::mt19937_64 random(kSeed + 2);
    for (int i = 0; i < effort(300); ++i) {
      const Case test = wide_case(random);
      const Cuts cuts = random_cuts(random, static_cast<std::uint32_t>(test.pair.train.size()), 4);
      CAPTURE(kernel->name);
      CAPTURE(kSeed);
      CAPTURE(i);
      CAPTURE(test.text);
      REQUIRE(disagreement(oracle(test.pair), evaluate_split(*kernel, test, cuts).values) == "");
    }
  }
}

TEST_CASE("parts of every kind merge: with moments or without, of many powers or few") {
  // The portable kernel has no moments; engines of two instruction sets round in their own ways.
  const std::vector<const cpu::TileKernel*> all = kernels();
  std::mt19937_64 random(kSeed + 3);
  for (int i = 0; i < effort(300); ++i) {
    const Case test = i % 3 == 0 ? random_case(random) : i % 3 == 1 ? peaked_case(random) : wide_case(random);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    const Cuts cuts = random_cuts(random, static_cast<std::uint32_t>(test.pair.train.size()), 5);
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    CAPTURE(cuts.size());
    const SplitRow split = evaluate_split(all, test, cuts);
    REQUIRE(split.row.status == DRIFTGATE_ROW_OK);
    REQUIRE(disagreement(oracle(test.pair), split.row.values) == "");
    CHECK((cuts.size() == 1 || !split.by_moments));  // the first is the portable one
  }
}

TEST_CASE("merged moments are accurate where they are accepted, whatever differs from part to part") {
  if (cpu::best_kernel().moments == nullptr) return;
  const cpu::TileKernel* const best[] = {&cpu::best_kernel()};
  const Cuts cuts{3'000, 6'000, 9'000};
  // Of each part: level and spread of its logits, mean and size of its drift, and whether it holds the top.
  struct PartShape {
    double level, offset, noise, peak;
  };
  struct RowShape {
    PartShape parts[3];
    bool by_moments;
  };
  const RowShape shapes[] = {
      {{{0, 0, 0.01, 0}, {0, 0, 0.01, 0}, {0, 0, 0.01, 0}}, true},
      {{{0, 0, 1e-6, 0}, {0, 0, 1e-6, 25}, {0, 0, 1e-6, 0}}, true},  // the top is nearly all of the row
      {{{0, 0, 0.01, 0}, {0, 0, 0.06, 0}, {0, 0, 0.14, 0}}, true},   // forms of 5, 8 and 12 powers
      {{{0, 0.02, 0.005, 0}, {0, -0.03, 0.005, 0}, {0, 0, 0.005, 12}}, true},
      {{{0, 0, 0.01, 0}, {-90, 0, 0.01, 0}, {-3'000, 0, 0.01, 0}}, true},  // parts of no mass
      {{{0, 0, 0.01, 0}, {kMasked, 0, 0.01, 0}, {0, 0, 0.01, 0}}, true},   // one all masked
      {{{0, 0, 0.01, 0}, {0, 0, 3, 0}, {0, 0, 0.01, 0}}, false},           // one of large drift
      {{{0, 0, 1e-4, 0}, {0, 0.9, 1e-4, 0}, {0, 0, 1e-4, 0}}, false},      // each small about its own mean
  };
  std::mt19937_64 random(kSeed + 4);
  std::normal_distribution<double> normal;
  for (const RowShape& shape : shapes) {
    std::vector<double> train, inf;
    for (std::size_t v = 0; v < 9'000; ++v) {
      const PartShape& part = shape.parts[v / 3'000];
      const double z = part.level + 2 * normal(random) + (v % 3'000 == 1'234 ? part.peak : 0);
      train.push_back(z);
      inf.push_back(z + part.offset + part.noise * normal(random));
    }
    Case test;
    test.train = store(train, DRIFTGATE_F32), test.inf = store(inf, DRIFTGATE_F32);
    test.pair = {test.train.values, test.inf.values, 1, 17, 10};
    CAPTURE(&shape - shapes);
    const SplitRow split = evaluate_split(best, test, cuts);
    CHECK(split.by_moments == shape.by_moments);
    CHECK(disagreement(oracle(test.pair), split.row.values) == "");
    CHECK(difference(evaluate(cpu::best_kernel(), test), split.row) == "");
  }
}

TEST_CASE("a split row that is not finite, all masked or has a masked target token has that status") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values(5'000, 0.5);
  Case test;
  test.pair = {values, values, 1, 4'000, 10};
  const auto status = [&](std::vector<double> train, std::vector<double> inf) {
    test.train = store(train, DRIFTGATE_F32);
    test.inf = store(inf, DRIFTGATE_F32);
    return evaluate_split(cpu::best_kernel(), test, {100, 3'000, 5'000});
  };
  CHECK(status(values, values).status == DRIFTGATE_ROW_OK);
  auto broken = values;
  broken[0] = broken[4'999] = std::nan("");
  const driftgate_row row = status(broken, values);
  CHECK(row.status == DRIFTGATE_ROW_NONFINITE);
  CHECK(row.values[static_cast<std::size_t>(Metric::nonfinite)] == 2);
  CHECK(std::isnan(row.values[static_cast<std::size_t>(Metric::tv)]));
  const std::vector<double> masked(5'000, -kInfinity);
  CHECK(status(masked, masked).status == DRIFTGATE_ROW_ALL_MASKED);
  auto token = values;
  token[4'000] = -kInfinity;
  CHECK(status(token, token).status == DRIFTGATE_ROW_TOKEN_MASKED);
  // A rank without any column left takes no part.
  auto middle = values;
  std::fill(middle.begin() + 100, middle.begin() + 3'000, -kInfinity);
  CHECK(status(middle, middle).values[static_cast<std::size_t>(Metric::tv)] == 0);
}

TEST_CASE("invalid parts of rows are refused with the reason") {
  auto backend = Backend::open("cpu", 1, 2);
  REQUIRE(backend);
  REQUIRE(backend->can_shard());
  const std::vector<float> logits(8, 1.0F);
  const std::int64_t tokens[] = {0, 9};
  std::vector<driftgate_shard_partial> partials(2);
  std::vector<driftgate_top_entry> top(8);
  std::vector<driftgate_shard_row> rows(2);
  std::vector<driftgate_shard_terms> terms(2);
  struct Call {
    driftgate_batch batch;
    driftgate_shard shard;
  };
  const auto call = [&](auto change) {
    Call out{{sizeof(driftgate_batch),
              4,
              2,
              {logits.data(), 16, DRIFTGATE_F32, 0},
              {logits.data(), 16, DRIFTGATE_F32, 0},
              tokens,
              1.0},
             {sizeof(driftgate_shard), 6, 10, 0}};
    change(out);
    return out;
  };
  const auto refused = [&](auto change) {
    const Call bad = call(change);
    const auto result = backend->shard_pass1(bad.batch, bad.shard, partials, top);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == schema::ErrorCode::invalid_argument);
  };
  const Call good = call([](Call&) {});
  CHECK_FALSE(backend->shard_pass2(good.batch, good.shard, rows, terms));  // before any pass 1
  REQUIRE(backend->shard_pass1(good.batch, good.shard, partials, top));
  CHECK(partials[0].has_token == 0);
  CHECK(partials[1].has_token == 1);
  REQUIRE(backend->shard_pass2(good.batch, good.shard, rows, terms));
  const Call other = call([](Call& c) { c.shard.slot = 1; });
  CHECK_FALSE(backend->shard_pass2(other.batch, other.shard, rows, terms));
  refused([](Call& c) { c.shard.slot = 2; });
  refused([](Call& c) { c.shard.struct_size = 4; });
  refused([](Call& c) { c.shard.first_column = 7; });
  refused([](Call& c) { c.shard.first_column = 0xffffffffU; });
  refused([](Call& c) { c.shard.total_columns = 9, c.shard.first_column = 5; });
  refused([](Call& c) { c.batch.temperature = 0; });
}
