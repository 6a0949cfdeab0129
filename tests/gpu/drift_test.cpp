#include "gpu/drift.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint32_t kSeed = 11;

/// `rows` random rows, eight to a sequence; `noise` is added to the logits.
CaptureDraft random_draft(std::size_t rows, double noise, std::uint64_t vocabulary = 300) {
  CaptureDraft draft;
  draft.vocabulary = vocabulary;
  std::mt19937 logits(kSeed), other(kSeed + 1);
  std::normal_distribution<float> normal;
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<float> values;
    for (std::uint64_t v = 0; v < vocabulary; ++v) {
      const float z = 4 * normal(logits);
      values.push_back(z + static_cast<float>(noise) * normal(other));
    }
    draft.add_row(static_cast<std::int32_t>(row / 8), static_cast<std::int32_t>(row % 8),
                  static_cast<std::int32_t>(row % vocabulary), values);
  }
  return draft;
}

Capture written(const CaptureDraft& draft, const std::filesystem::path& path) {
  draft.write(path);
  auto capture = Capture::open(path);
  if (!capture) FAIL(capture.error().describe());
  return std::move(*capture);
}

std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}

}  // namespace

TEST_CASE("any number of threads and any split into files give the same bytes") {
  TemporaryFolder folder;
  const CaptureDraft train = random_draft(100, 0), inf = random_draft(100, 0.05);
  const Capture a = written(train, folder / "a.safetensors");
  const Capture b = written(inf, folder / "b.safetensors");
  inf.write_parts(folder / "parts", {1, 37, 100});
  const auto parts = Capture::open(folder / "parts");
  REQUIRE(parts);
  MeasureOptions options;
  options.threads = 1;
  const auto one = measure(a, b, nullptr, options);
  REQUIRE(one);
  for (const std::uint32_t threads : {2U, 3U, 7U, 64U}) {
    options.threads = threads;
    for (const Capture* capture : {&b, &*parts}) {
      const auto other = measure(a, *capture, nullptr, options);
      REQUIRE(other);
      CHECK(serialise(*other) == serialise(*one));
    }
  }
}

TEST_CASE("a row that is not finite is reported with its place and not averaged") {
  TemporaryFolder folder;
  const CaptureDraft train = random_draft(40, 0);
  CaptureDraft inf = random_draft(40, 0.05);
  inf.logits[17 * 300 + 5] = std::numeric_limits<float>::quiet_NaN();
  inf.logits[30 * 300] = std::numeric_limits<float>::infinity();
  const auto table =
      measure(written(train, folder / "a.safetensors"), written(inf, folder / "b.safetensors"), nullptr, {});
  REQUIRE(table);
  CHECK(table->nonfinite_rows == 2);
  CHECK(table->rows == 40);
  REQUIRE(table->worst_rows.size() == 20);
  CHECK(table->worst_rows[0].row == 17);
  CHECK(table->worst_rows[0].sequence == 2);
  CHECK(table->worst_rows[0].position == 1);
  CHECK(table->worst_rows[0].token == 17);
  CHECK(table->worst_rows[1].row == 30);
  CHECK(table->worst_rows[2].values[index_of(Metric::nonfinite)] == 0);
  const SequenceRow& sequence = table->sequences[2];
  CHECK(sequence.rows == 8);
  CHECK(sequence.metrics[index_of(Metric::nonfinite)].n == 8);
  CHECK(sequence.metrics[index_of(Metric::nonfinite)].sum == 1);
  CHECK(sequence.metrics[index_of(Metric::tv)].n == 7);
  CHECK(sequence.head_tail_tv.n == 7);
  CHECK(sequence.head_tail_tv.sum >= sequence.metrics[index_of(Metric::tv)].sum);
  CHECK(std::isfinite(sequence.metrics[index_of(Metric::tv)].sum));
}

TEST_CASE("a sequence keeps the top probabilities of both kernels at its last captured position") {
  TemporaryFolder folder;
  CaptureDraft train, inf;
  train.vocabulary = inf.vocabulary = 3;
  const auto add = [&](std::int32_t sequence, std::int32_t position, std::vector<float> z,
                       std::vector<float> y) {
    train.add_row(sequence, position, 0, z);
    inf.add_row(sequence, position, 0, y);
  };
  add(0, 4, {0, 0, 0}, {0, 0, 0});
  add(0, 5, {std::log(6.0F), std::log(2.0F), std::log(2.0F)}, {0, 0, std::log(2.0F)});
  add(1, 9, {0, 0, 0}, {0, 0, 0});
  add(1, 3, {9, 0, 0}, {9, 0, 0});  // an earlier position that was written later
  add(2, 0, {0, 0, 0}, {0, 0, std::numeric_limits<float>::quiet_NaN()});
  const auto table =
      measure(written(train, folder / "a.safetensors"), written(inf, folder / "b.safetensors"), nullptr, {});
  REQUIRE(table);
  CHECK(*table->sequences[0].top_train == doctest::Approx(0.6).epsilon(1e-6));
  CHECK(*table->sequences[0].top_inf == doctest::Approx(0.5).epsilon(1e-6));
  CHECK(*table->sequences[1].top_train == doctest::Approx(1.0 / 3).epsilon(1e-6));
  CHECK_FALSE(table->sequences[2].top_train);
  CHECK_FALSE(table->sequences[2].top_inf);
}

TEST_CASE("worst rows are the largest kl_inf_train, worst first") {
  TemporaryFolder folder;
  MeasureOptions options;
  options.top_rows = 5;
  std::vector<double> kl;
  const auto table = measure(written(random_draft(60, 0), folder / "a.safetensors"),
                             written(random_draft(60, 0.3), folder / "b.safetensors"), nullptr, options, {},
                             [&](std::uint64_t, std::span<const driftgate_row> rows) -> schema::Result<void> {
                               for (const auto& row : rows)
                                 kl.push_back(row.values[index_of(Metric::kl_inf_train)]);
                               return {};
                             });
  REQUIRE(table);
  REQUIRE(kl.size() == 60);
  std::vector<double> sorted = kl;
  std::ranges::sort(sorted, std::greater{});
  REQUIRE(table->worst_rows.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(table->worst_rows[i].values[index_of(Metric::kl_inf_train)] == sorted[i]);
    CHECK(kl[static_cast<std::size_t>(table->worst_rows[i].row)] == sorted[i]);
  }
}

TEST_CASE("thresholds count each sequence's rows beyond them") {
  TemporaryFolder folder;
  MeasureOptions options;
  options.thresholds = {{Metric::tv, 0.05, true}, {Metric::tv, 0.05, false}, {Metric::tv, 2.0, true}};
  const auto table = measure(written(random_draft(64, 0), folder / "a.safetensors"),
                             written(random_draft(64, 0.1), folder / "b.safetensors"), nullptr, options);
  REQUIRE(table);
  std::uint32_t above = 0;
  for (const SequenceRow& sequence : table->sequences) {
    CHECK(sequence.beyond[0] + sequence.beyond[1] == sequence.rows);
    CHECK(sequence.beyond[2] == 0);
    above += sequence.beyond[0];
  }
  CHECK(above > 0);
  CHECK(above < 64);
}

TEST_CASE("progress ends at the number of rows and an error of the sink ends the measurement") {
  TemporaryFolder folder;
  const Capture a = written(random_draft(16, 0), folder / "a.safetensors");
  std::uint64_t last = 0;
  REQUIRE(measure(a, a, nullptr, {}, [&](std::uint64_t done, std::uint64_t total) {
    CHECK(total == 16);
    last = done;
  }));
  CHECK(last == 16);
  const auto stopped = measure(a, a, nullptr, {}, {}, [](std::uint64_t, std::span<const driftgate_row>) {
    return schema::Result<void>(schema::fail(schema::ErrorCode::storage_full, "disk full"));
  });
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().code == schema::ErrorCode::storage_full);
}

TEST_CASE("rows without a distribution, masked tokens and unknown sequences are errors that say where") {
  TemporaryFolder folder;
  CaptureDraft draft = random_draft(8, 0, 4);
  for (std::size_t i = 0; i < 4; ++i) draft.logits[4 * 3 + i] = -std::numeric_limits<float>::infinity();
  const Capture blank = written(draft, folder / "blank.safetensors");
  const auto no_row = measure(blank, blank, nullptr, {});
  REQUIRE_FALSE(no_row);
  CHECK(no_row.error().message.find("row 3 (sequence 0, position 3)") != std::string::npos);

  draft = random_draft(8, 0, 4);
  draft.logits[4 * 2 + 2] = -std::numeric_limits<float>::infinity();
  const Capture masked = written(draft, folder / "masked.safetensors");
  const auto no_token = measure(masked, masked, nullptr, {});
  REQUIRE_FALSE(no_token);
  CHECK(no_token.error().message.find("row 2") != std::string::npos);
  CHECK(no_token.error().message.find("token 2") != std::string::npos);

  const Capture fine = written(random_draft(16, 0, 4), folder / "fine.safetensors");
  const auto corpus = parse_corpus("{\"sequence\": 0}", "c");
  const auto unknown = measure(fine, fine, &*corpus, {});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message.find("sequence 1") != std::string::npos);
}

TEST_CASE("described slices are single keys, then pairs, with enough sequences; missing is a value") {
  std::vector<SequenceInfo> infos;
  for (int i = 0; i < 40; ++i) {
    SequenceInfo info;
    info.slices["language"] = i < 30 ? "en" : "de";
    if (i % 2 == 0) info.slices["domain"] = "code";
    infos.push_back(info);
  }
  const auto slices = described_slices(infos);
  const std::vector<SliceAttributes> wanted = {{{"domain", "(missing)"}},
                                               {{"domain", "code"}},
                                               {{"language", "de"}},
                                               {{"language", "en"}},
                                               {{"domain", "(missing)"}, {"language", "en"}},
                                               {{"domain", "code"}, {"language", "en"}}};
  CHECK(slices == wanted);
}

TEST_CASE(
    "pairs of target-token log-probabilities give the sampled figures; unknown ones are left out and "
    "positive ones refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<TargetTokenPair> pairs = {{5, std::log(0.5), std::log(0.25)},
                                              {5, std::log(0.2), std::log(0.4)},
                                              {9, -1.0, -1.0},
                                              {9, nan, -1.0},
                                              {9, -1.0, -inf},
                                              {9, -9999.0, -1.0}};
  TargetTokenContext context;
  context.is_clip = 0.9;
  context.thresholds = {{Metric::log_ratio, 0.1, true}};
  const auto table = measure_target_tokens(pairs, context);
  REQUIRE(table);
  CHECK(table->rows == 3);
  CHECK(table->has_tokens);
  REQUIRE(table->sequences.size() == 2);
  const TargetTokenSums& first = table->sequences[0].target;
  CHECK(first.n == 2);
  CHECK(first.w == doctest::Approx(2.5).epsilon(1e-14));
  CHECK(first.abs_w_minus_1 == doctest::Approx(1.5).epsilon(1e-14));
  CHECK(first.k3 == doctest::Approx(0.5 - std::log(2.0) + std::log(2.0)).epsilon(1e-12));
  CHECK(first.exp_abs_log_w == doctest::Approx(4.0).epsilon(1e-14));
  CHECK(first.outside_clip == 2);
  CHECK(first.excess_is_clip == doctest::Approx(0.1).epsilon(1e-12));
  CHECK(first.min_log_q == std::log(0.25));
  CHECK(table->sequences[0].beyond[0] == 1);
  CHECK(table->sequences[1].target.in_band[0] == 1);
  CHECK(table->sequences[0].metrics[index_of(Metric::log_ratio)].n == 2);
  CHECK(table->sequences[0].metrics[index_of(Metric::tv)].n == 0);
  const auto positive = measure_target_tokens(std::vector<TargetTokenPair>{{1, 0.5, -1.0}}, {});
  REQUIRE_FALSE(positive);
  CHECK(positive.error().message.find("pair 0 (sequence 1)") != std::string::npos);
}
