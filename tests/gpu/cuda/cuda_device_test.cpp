// Tests the CUDA backend on a device, through the table that the program uses. Where there is no device, each
// test reports that it was skipped; what needs no device is tested in cuda_math_test.cpp.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "gpu/backend/backend_loader.hpp"
#include "gpu/ranks/shard_merge.hpp"
#include "tests/gpu/cuda_device.hpp"
#include "tests/gpu/random_rows.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint64_t kSeed = 20261122;

double value(const driftgate_row& row, Metric metric) {
  return row.values[static_cast<std::size_t>(metric)];
}

/// Rows of one shape with random logits, drift and dtype.
struct Rows {
  std::uint32_t vocabulary, dtype;
  std::uint64_t rows;
  Stored train, inf;
  std::vector<std::int64_t> tokens;
  [[nodiscard]] driftgate_batch batch(double temperature = 1.0) const {
    return {sizeof(driftgate_batch), vocabulary,    rows,       train.view(vocabulary),
            inf.view(vocabulary),    tokens.data(), temperature};
  }
};

Rows make_rows(std::mt19937_64& random, std::uint32_t vocabulary, std::uint32_t dtype, std::uint64_t rows) {
  std::normal_distribution<double> normal;
  std::vector<double> train, inf;
  Rows out{vocabulary, dtype, rows, {}, {}, {}};
  for (std::uint64_t row = 0; row < rows; ++row) {
    const double drift = std::pow(10.0, -6.0 + static_cast<double>(random() % 6)),
                 peak = static_cast<double>(random() % 25);
    for (std::uint32_t v = 0; v < vocabulary; ++v) {
      train.push_back(3 * normal(random) + (v == row % vocabulary ? peak : 0.0));
      inf.push_back(train.back() + drift * normal(random));
    }
    out.tokens.push_back(static_cast<std::int64_t>(random() % vocabulary));
  }
  out.train = store(train, dtype), out.inf = store(inf, dtype);
  return out;
}

/// Empty when the device's figures are those of the CPU, to what both are off by at most: each has its own
/// error.
std::string difference(const driftgate_row& cpu, const driftgate_row& cuda) {
  if (cpu.status != cuda.status) return "status";
  for (std::size_t metric = 0; metric < kRowMetricCount; ++metric) {
    const double want = cpu.values[metric], have = cuda.values[metric];
    if ((std::isnan(want) && std::isnan(have)) || want == have) continue;
    if (std::abs(want - have) <= 2 * permitted(metric, want)) continue;
    return std::string(schema::to_string(static_cast<Metric>(metric))) + ": cpu " + std::to_string(want) +
           ", cuda " + std::to_string(have);
  }
  const auto near = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-6;
  };
  if (!near(cpu.top_train, cuda.top_train)) return "top_train";
  if (!near(cpu.top_inf, cuda.top_inf)) return "top_inf";
  return {};
}

}  // namespace

TEST_CASE("the device agrees with the oracle on random rows") {
  std::mt19937_64 random(kSeed);
  std::map<std::uint32_t, Backend> backends;  // by top_k
  for (int i = 0; i < 3'000; ++i) {
    const Case test = i % 2 == 0 ? random_case(random) : peaked_case(random);
    if (!finite(test.pair.train) || !finite(test.pair.inf)) continue;
    if (!backends.contains(test.pair.top_k)) {
      auto backend = device(test.pair.top_k);
      if (!backend) return;
      backends.emplace(test.pair.top_k, std::move(*backend));
    }
    CAPTURE(kSeed);
    CAPTURE(i);
    CAPTURE(test.text);
    const auto vocabulary = static_cast<std::uint32_t>(test.pair.train.size());
    const driftgate_batch batch{sizeof(driftgate_batch),
                                vocabulary,
                                1,
                                test.train.view(vocabulary),
                                test.inf.view(vocabulary),
                                &*test.pair.token,
                                test.pair.temperature};
    std::vector<driftgate_row> rows(1);
    const auto done = backends.at(test.pair.top_k).measure(batch, rows);
    REQUIRE_MESSAGE(done, done.error().message);
    REQUIRE(disagreement(oracle(test.pair), rows[0].values) == "");
  }
}

TEST_CASE("the device agrees with the CPU on whole vocabularies of every dtype, and twice to the bit") {
  auto cpu = Backend::open("cpu", 2, 10);
  REQUIRE(cpu);
  std::mt19937_64 random(kSeed + 1);
  for (const std::uint32_t vocabulary : {32'000U, 50'257U, 131'072U, 262'144U}) {
    for (const std::uint32_t dtype : {DRIFTGATE_F32, DRIFTGATE_F16, DRIFTGATE_BF16}) {
      auto backend = device(10);
      if (!backend) return;
      CAPTURE(kSeed);
      CAPTURE(vocabulary);
      CAPTURE(dtype);
      const Rows rows = make_rows(random, vocabulary, dtype, 12);
      std::vector<driftgate_row> wanted(rows.rows), first(rows.rows), second(rows.rows);
      REQUIRE(cpu->measure(rows.batch(), wanted));
      REQUIRE(backend->measure(rows.batch(), first));
      REQUIRE(backend->measure(rows.batch(), second));
      CHECK(std::memcmp(first.data(), second.data(), first.size() * sizeof(driftgate_row)) == 0);
      for (std::size_t i = 0; i < rows.rows; ++i) {
        CAPTURE(i);
        REQUIRE(difference(wanted[i], first[i]) == "");
      }
    }
  }
}

TEST_CASE("a batch of many chunks gives the rows that each gives alone") {
  auto backend = device(10);
  if (!backend) return;
  std::mt19937_64 random(kSeed + 2);
  const Rows rows = make_rows(random, 4'099, DRIFTGATE_BF16, 9'000);
  std::vector<driftgate_row> all(rows.rows), one(1);
  REQUIRE(backend->measure(rows.batch(), all));
  for (std::size_t i = 0; i < rows.rows; i += 997) {
    driftgate_batch batch = rows.batch();
    batch.train.data = static_cast<const unsigned char*>(batch.train.data) + i * batch.train.row_stride_bytes;
    batch.inf.data = static_cast<const unsigned char*>(batch.inf.data) + i * batch.inf.row_stride_bytes;
    batch.tokens += i;
    batch.rows = 1;
    REQUIRE(backend->measure(batch, one));
    CAPTURE(i);
    CHECK(std::memcmp(one.data(), &all[i], sizeof(driftgate_row)) == 0);
  }
}

TEST_CASE("the device gives rows without figures the same status as the CPU") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  auto cpu = Backend::open("cpu", 1, 10);
  REQUIRE(cpu);
  auto backend = device(10);
  if (!backend) return;
  for (const std::uint32_t vocabulary : {20U, 5'000U}) {
    std::vector<double> train(6 * vocabulary, 0.5);
    for (std::uint32_t v = 0; v < vocabulary; ++v) {
      train[vocabulary + v] = kMasked;  // row 1: all masked
      train[4 * vocabulary + v] = 1.0 + 1e-3 * v;
    }
    std::vector<double> inf = train;
    train[7] = kNaN;                                                // row 0
    train[2 * vocabulary + 3] = inf[2 * vocabulary + 3] = kMasked;  // row 2: the token is masked
    inf[3 * vocabulary + 11] = -kMasked;                            // row 3: an infinite logit
    inf[5 * vocabulary + 9] = 40;                                   // row 5: a large drift
    const Stored a = store(train, DRIFTGATE_F32), b = store(inf, DRIFTGATE_F32);
    const std::vector<std::int64_t> tokens(6, 3);
    const driftgate_batch batch{sizeof(driftgate_batch), vocabulary,    6,  a.view(vocabulary),
                                b.view(vocabulary),      tokens.data(), 1.0};
    std::vector<driftgate_row> wanted(6), got(6);
    REQUIRE(cpu->measure(batch, wanted));
    REQUIRE(backend->measure(batch, got));
    for (std::size_t i = 0; i < 6; ++i) {
      CAPTURE(i);
      CHECK(difference(wanted[i], got[i]) == "");
    }
  }
}

TEST_CASE("core metrics on the device are those of all metrics") {
  auto all = device(10), core = device(10, DRIFTGATE_METRICS_CORE);
  if (!all || !core) return;
  std::mt19937_64 random(kSeed + 3);
  const Rows rows = make_rows(random, 32'000, DRIFTGATE_BF16, 64);
  std::vector<driftgate_row> wanted(rows.rows), got(rows.rows);
  REQUIRE(all->measure(rows.batch(), wanted));
  REQUIRE(core->measure(rows.batch(), got));
  for (std::size_t i = 0; i < rows.rows; ++i) {
    CAPTURE(i);
    for (const Metric metric :
         {Metric::kl_train_inf, Metric::kl_inf_train, Metric::logit_span, Metric::log_ratio}) {
      const auto at = static_cast<std::size_t>(metric);
      CHECK(std::abs(got[i].values[at] - wanted[i].values[at]) <= 2 * permitted(at, wanted[i].values[at]));
    }
    CHECK(std::isnan(value(got[i], Metric::tv)));
  }
}

TEST_CASE("a vocabulary split over engines of the device gives the rows of one") {
  auto whole = device(10), low = device(10), high = device(10);
  if (!whole || !low || !high) return;
  REQUIRE(low->can_shard());
  std::mt19937_64 random(kSeed + 4);
  const Rows rows = make_rows(random, 32'003, DRIFTGATE_F32, 40);
  std::vector<driftgate_row> wanted(rows.rows), got(rows.rows);
  REQUIRE(whole->measure(rows.batch(), wanted));
  const ShardMerger merger(2, 10, 1.0);
  const std::size_t bytes = merger.partial_bytes(rows.rows);
  std::vector<std::byte> messages(2 * bytes);
  std::vector<driftgate_shard_row> merged(rows.rows);
  std::vector<driftgate_shard_terms> terms(2 * rows.rows);
  Backend* const engines[] = {&*low, &*high};
  const std::uint32_t cuts[] = {0, 20'000, rows.vocabulary};
  driftgate_batch batches[] = {rows.batch(), rows.batch()};
  driftgate_shard shards[2];
  for (std::size_t i = 0; i < 2; ++i) {
    for (driftgate_logits* logits : {&batches[i].train, &batches[i].inf}) {
      logits->data = static_cast<const unsigned char*>(logits->data) + std::size_t{4} * cuts[i];
    }
    batches[i].vocabulary = cuts[i + 1] - cuts[i];
    shards[i] = {sizeof(driftgate_shard), cuts[i], rows.vocabulary, 0};
    const std::span message(messages.data() + i * bytes, bytes);
    REQUIRE(engines[i]->shard_pass1(batches[i], shards[i], ShardMerger::partials(message, rows.rows),
                                    merger.top(message, rows.rows)));
  }
  merger.merge(messages, merged);
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(
        engines[i]->shard_pass2(batches[i], shards[i], merged, {terms.data() + i * rows.rows, rows.rows}));
  }
  merger.finish(messages, merged, terms, got);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    CAPTURE(i);
    CHECK(difference(wanted[i], got[i]) == "");
  }
}

TEST_CASE("a device that does not exist is an error that names it") {
  if (!device(10)) return;
  const auto absent = Backend::open("cuda:999", 1, 10, cuda_library());
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == schema::ErrorCode::unavailable);
  CHECK(absent.error().message.find("999") != std::string::npos);
}
