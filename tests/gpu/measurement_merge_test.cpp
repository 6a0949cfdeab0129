#include "gpu/table/measurement_merge.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "gpu/drift.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using namespace driftgate::gpu;
using namespace driftgate::gpu::test;

namespace {

constexpr std::uint32_t kSeed = 23;
constexpr std::size_t kRows = 60, kColumns = 40;

Capture random_capture(const std::filesystem::path& path, double noise) {
  CaptureDraft draft;
  draft.vocabulary = kColumns;
  std::mt19937 logits(kSeed), other(kSeed + 1);
  std::normal_distribution<float> normal;
  for (std::size_t row = 0; row < kRows; ++row) {
    std::vector<float> values;
    for (std::size_t v = 0; v < kColumns; ++v) {
      const float z = 3 * normal(logits);
      values.push_back(z + static_cast<float>(noise) * normal(other));
    }
    if (row == 41) values[3] = std::numeric_limits<float>::quiet_NaN();
    draft.add_row(static_cast<std::int32_t>(row / 5), static_cast<std::int32_t>(row % 5),
                  static_cast<std::int32_t>(row % kColumns), values);
  }
  draft.write(path);
  auto capture = Capture::open(path);
  if (!capture) FAIL(capture.error().describe());
  return std::move(*capture);
}

struct Setup {
  TemporaryFolder folder;
  Capture train = random_capture(folder / "a", 0), inf = random_capture(folder / "b", 0.1);
  MeasureOptions options = [] {
    MeasureOptions out;
    out.threads = 1;
    out.top_rows = 7;
    out.thresholds = {{Metric::tv, 0.01, true}, {Metric::top1_margin, 0.5, false}};
    return out;
  }();
  MeasurementTable table(std::uint64_t first, std::uint64_t end) {
    auto out = measure(train.slice(first, end - first), inf.slice(first, end - first), nullptr, options);
    if (!out) FAIL(out.error().describe());
    return std::move(*out);
  }
};

}  // namespace

TEST_CASE("tables of parts merge into the table of the whole, wherever sequences were parted") {
  Setup setup;
  MeasurementTable whole = setup.table(0, kRows);
  for (const auto& cuts : {std::vector<std::uint64_t>{0, 5, 60}, {0, 30, 60}, {0, 5, 10, 40, 45, 60}}) {
    MeasurementTable merged = setup.table(cuts[0], cuts[1]);
    for (std::size_t i = 1; i + 1 < cuts.size(); ++i) {
      const auto ok = merge(merged, setup.table(cuts[i], cuts[i + 1]), setup.options.top_rows);
      REQUIRE(ok);
    }
    CHECK(merged.worst_rows.front().row == 41);  // not finite
    CHECK(merged.nonfinite_rows == 1);
    // Sums over all rows, which rounding orders; everything else is the same to the bit.
    CHECK(merged.profile.by_entropy[8].tv == doctest::Approx(whole.profile.by_entropy[8].tv).epsilon(1e-12));
    merged.profile = whole.profile;
    CHECK(serialise(merged) == serialise(whole));
  }
}

TEST_CASE("tables that are not parts of one measurement are refused with what differs") {
  Setup setup;
  const MeasurementTable first = setup.table(0, 30);
  const auto refused = [&](const char* what, auto change) {
    MeasurementTable into = first, other = setup.table(30, 60);
    change(other);
    const auto ok = merge(into, std::move(other), 7);
    CAPTURE(what);
    REQUIRE_FALSE(ok);
    CHECK(ok.error().code == schema::ErrorCode::not_comparable);
    CHECK(ok.error().message.find(what) != std::string::npos);
  };
  refused("kernel", [](MeasurementTable& t) { t.inf.kernel = "another"; });
  refused("temperature", [](MeasurementTable& t) { t.train.temperature = 2; });
  refused("vocabulary", [](MeasurementTable& t) { t.vocabulary = 3; });
  refused("thresholds", [](MeasurementTable& t) { t.thresholds[0].value = 1; });
  refused("ppo_clip", [](MeasurementTable& t) { t.ppo_clip = 0.1; });
  refused("modes", [](MeasurementTable& t) { t.partial.mode = "topk"; });
  refused("kinds of device", [](MeasurementTable& t) { t.rows_on_cpu = 0; });
  refused("slices", [](MeasurementTable& t) { t.slices.emplace_back().where["a"] = "b"; });
  refused("sequence 2 is in both", [](MeasurementTable& t) { t.sequences[0].sequence = 2; });
}

TEST_CASE("a slice of a capture holds its rows of every file") {
  TemporaryFolder folder;
  const Capture whole = random_capture(folder / "a", 0);
  const Capture part = whole.slice(7, 11).slice(2, 4);
  CHECK(part.first_row() == 9);
  CHECK(part.rows() == 4);
  CHECK(std::ranges::equal(part.token_ids(), whole.token_ids().subspan(9, 4)));
  CHECK(std::ranges::equal(part.positions(), whole.positions().subspan(9, 4)));
  REQUIRE(part.segments().size() == 1);
  CHECK(part.segments()[0].first_row == 0);
  CHECK(part.segments()[0].rows == 4);
  CHECK(part.segments()[0].logits == whole.segments()[0].logits + 9 * kColumns * sizeof(float));
}
