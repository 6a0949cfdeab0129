#include "gpu/table/profile.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "gpu/table/accumulator.hpp"

using namespace driftgate;
using namespace driftgate::gpu;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

ProfileRow profile_row(std::int64_t position, double tv, double entropy) {
  return {position, tv, 2 * tv, 4 * tv, tv > 0.5 ? 1.0 : 0.0, entropy, entropy + 0.25, 0.5, -1, -1.5, 0.5};
}

/// A row as the engine gives it, all figures `tv` or what follows from it.
driftgate_row engine_row(double tv) {
  driftgate_row row{};
  for (double& value : row.values) value = tv;
  row.values[static_cast<std::size_t>(Metric::nonfinite)] = 0;
  return row;
}

}  // namespace

TEST_CASE("positions fall into buckets that double, and the last takes all beyond") {
  DriftProfile profile;
  for (const std::int64_t position : {0L, 1L, 2L, 3L, 4L, 7L, 8L, 1L << 22, 1L << 40, -3L}) {
    profile.add(profile_row(position, 0.125, 1));
  }
  const std::vector<std::uint64_t> wanted = {2, 1, 2, 2, 1};
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(profile.by_position[i].rows == wanted[i]);
  CHECK(profile.by_position[kPositionBuckets - 1].rows == 2);
  CHECK(first_position(0) == 0);
  CHECK(first_position(1) == 1);
  CHECK(first_position(4) == 8);
  CHECK(profile.by_position[2].tv == 0.25);
  CHECK(profile.by_position[2].kl_inf_train == 0.5);
}

TEST_CASE("an edge belongs to the bucket above it, and rows without a token go by the likeliest") {
  DriftProfile profile;
  profile.add(profile_row(0, 0.5, 0.01));
  profile.add(profile_row(0, 0.75, 0.009));
  CHECK(profile.by_entropy[0].rows == 1);
  CHECK(profile.by_entropy[1].rows == 1);
  CHECK(profile.by_entropy[0].top1_flips == 1);
  CHECK(profile.by_probability[5].rows == 2);  // e^{-1} is from 0.1 to 0.5
  ProfileRow row = profile_row(0, 0.5, 1);
  row.logprob_train = row.logprob_inf = row.log_ratio = kNaN;
  profile.add(row);
  CHECK(profile.by_probability[6].rows == 1);  // 0.5 is from 0.5 to 0.9
  CHECK(profile.by_probability[6].tokens == 0);
  row.tv = kNaN, row.entropy_train = row.entropy_inf = row.top_train = kNaN;
  row.log_ratio = -0.5;
  profile.add(row);
  CHECK(profile.by_position[0].rows == 3);
  CHECK(profile.by_position[0].tokens == 3);
}

TEST_CASE("profiles and contrasts of parts merge into those of the whole") {
  DriftProfile whole, left, right;
  RowContrast all, first, second;
  for (int i = 0; i < 40; ++i) {
    const ProfileRow row = profile_row(i, (i % 8) / 8.0, i / 4.0);
    whole.add(row), all.add(row), all.add_pair(row, profile_row(i + 1, 0.25, 2));
    (i < 13 ? left : right).add(row);
    (i < 13 ? first : second).add(row);
    (i < 13 ? first : second).add_pair(row, profile_row(i + 1, 0.25, 2));
  }
  left.merge(right);
  first.merge(second);
  for (std::size_t i = 0; i < kPositionBuckets; ++i) {
    CHECK(left.by_position[i].rows == whole.by_position[i].rows);
    CHECK(left.by_position[i].logit_rms == whole.by_position[i].logit_rms);  // sums of eighths are exact
  }
  CHECK(first.rows == all.rows);
  CHECK(first.entropy.next == all.entropy.next);
  CHECK(first.inf_likelier == all.inf_likelier);
  CHECK(first.bf16_inf == all.bf16_inf);
}

TEST_CASE("a contrast tells shifted rows, one-sided tokens and log-probabilities rounded to bf16") {
  RowContrast contrast;
  const std::vector<double> entropy = {1, 4, 2, 8, 3};
  for (std::size_t i = 0; i + 1 < entropy.size(); ++i) {
    ProfileRow row = profile_row(0, 0.5, entropy[i]), after = profile_row(1, 0.5, entropy[i + 1]);
    row.entropy_inf = entropy[i + 1];
    after.entropy_inf = i + 2 < entropy.size() ? entropy[i + 2] : 0;
    row.logprob_train = -0.7;  // not of 8 bits
    row.logprob_inf = -0.625;
    row.log_ratio = row.logprob_train - row.logprob_inf;
    contrast.add(row);
    contrast.add_pair(row, after);
  }
  CHECK(contrast.entropy.pairs == 4);
  CHECK(contrast.entropy.next == 0);
  CHECK(contrast.entropy.own == 3 + 2 + 6 + 5);
  CHECK(contrast.entropy_gap == 16);
  CHECK(contrast.entropy_up == 2);
  CHECK(contrast.inf_likelier == 4);
  CHECK(contrast.nonzero_train == 4);
  CHECK(contrast.bf16_train == 0);
  CHECK(contrast.bf16_inf == 4);
  ProfileRow certain = profile_row(0, 0.5, 1);
  certain.logprob_train = certain.logprob_inf =
      -0x1p-18;  // one step of a float32 logit of 40: no sign of rounding
  contrast.add(certain);
  CHECK(contrast.nonzero_train == 4);
  CHECK(contrast.nonzero_inf == 4);
}

TEST_CASE("a worst row knows the drift of its neighbours in its own sequence") {
  const std::vector<std::int64_t> sequences = {7, 7, 7, 9, 9};
  Accumulator accumulator(MeasurementTable{}, sequences);
  accumulator.set_top_rows(5);
  const std::vector<double> tv = {0.5, 0.125, 0.25, 0.0625, 0.75};
  for (std::size_t i = 0; i < tv.size(); ++i) {
    accumulator.add(static_cast<std::int64_t>(i), 1, engine_row(tv[i]));
  }
  const MeasurementTable table = accumulator.finish();
  REQUIRE(table.worst_rows.size() == 5);
  for (const WorstRow& row : table.worst_rows) {
    CAPTURE(row.row);
    const bool begins = row.row == 0 || row.row == 3, ends = row.row == 2 || row.row == 4;
    CHECK(std::isnan(row.kl_before) == begins);
    CHECK(std::isnan(row.kl_after) == ends);
    if (!begins) CHECK(row.kl_before == tv[row.row - 1]);
    if (!ends) CHECK(row.kl_after == tv[row.row + 1]);
  }
  CHECK(table.worst_rows[0].row == 4);
  CHECK(table.sequences[0].contrast.entropy.pairs == 2);
  CHECK(table.sequences[1].contrast.entropy.pairs == 1);
  CHECK(table.sequences[0].contrast.rows == 3);
}
