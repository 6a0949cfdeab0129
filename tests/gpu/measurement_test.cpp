#include "gpu/table/measurement.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace driftgate;
using namespace driftgate::gpu;

namespace {

MeasurementTable small_table() {
  MeasurementTable table;
  table.train.kernel = "train";
  table.inf.kernel = "inf";
  table.inf.temperature = 0.7;
  table.rows = 3;
  table.vocabulary = 9;
  table.is_clip = 2.0;
  table.has_tokens = true;
  table.thresholds = {{Metric::tv, 0.25, true}, {Metric::log_ratio, -1.0, false}};
  SequenceRow& sequence = table.sequences.emplace_back();
  sequence.sequence = -5;
  sequence.rows = 3;
  sequence.metrics[0].add(1.0);
  sequence.metrics[8].add(std::numeric_limits<double>::infinity());
  sequence.head_tail_tv.add(0.125);
  sequence.beyond = {1, 0};
  sequence.top_inf = 0.75;
  sequence.target.in_band = {1, 2, 3};
  sequence.contrast.entropy.add(1, 2, 4, 8);
  SequenceInfo& info = table.infos.emplace_back();
  info.sequence = -5;
  info.id = "ä\0b";
  info.slices = {{"domain", "code"}, {"language", "de"}};
  info.reward = -0.0;
  info.correct_inf = false;
  SliceHistograms& slice = table.slices.emplace_back();
  slice.where = {{"language", "de"}};
  for (const double value : {0.0, 1e-9, -3.0, 7.0}) slice.histograms[2].add(value);
  WorstRow& worst = table.worst_rows.emplace_back();
  worst.values[3] = std::numeric_limits<double>::quiet_NaN();
  worst.position = 17;
  worst.kl_after = 0.5;
  table.profile.by_entropy[3].tv = 0.25;
  return table;
}

}  // namespace

TEST_CASE("moments of parts merge into the moments of the whole") {
  Moments whole, left, right;
  for (const double value : {3.0, -1.0, 4.0}) left.add(value), whole.add(value);
  for (const double value : {1.0, 5.0}) right.add(value), whole.add(value);
  left.merge(right);
  left.merge(Moments{});
  CHECK(left.n == 5);
  CHECK(left.sum == whole.sum);
  CHECK(left.sum_squares == whole.sum_squares);
  CHECK(left.min == -1.0);
  CHECK(left.max == 5.0);
  CHECK(left.mean() == 12.0 / 5.0);
  CHECK(std::isnan(Moments{}.mean()));
}

TEST_CASE("tokens count as sampled by K_inf only when it sampled them without filters") {
  MeasurementTable table;
  table.has_tokens = true;
  table.inf.kernel = "k";
  table.inf.sampling_filter = "none";
  table.inf.token_source = "corpus";
  CHECK_FALSE(table.sampled_by_inf());
  table.inf.token_source = "k";
  CHECK(table.sampled_by_inf());
  table.inf.kernel = table.inf.token_source = "corpus";
  CHECK_FALSE(table.sampled_by_inf());
  table.inf.kernel = table.inf.token_source = "k";
  table.inf.sampling_filter = "top_p=0.9";
  CHECK_FALSE(table.sampled_by_inf());
  table.inf.sampling_filter = "none";
  table.has_tokens = false;
  CHECK_FALSE(table.sampled_by_inf());
}

TEST_CASE("a table written and read again has the same bytes") {
  const std::string bytes = serialise(small_table());
  const auto again = deserialise(bytes);
  REQUIRE(again);
  CHECK(serialise(*again) == bytes);
  CHECK(again->sequences[0].sequence == -5);
  CHECK(again->sequences[0].head_tail_tv.sum == 0.125);
  CHECK_FALSE(again->sequences[0].top_train);
  CHECK(again->sequences[0].top_inf == 0.75);
  CHECK(again->infos[0].slices.at("language") == "de");
  CHECK(std::signbit(*again->infos[0].reward));
  CHECK_FALSE(again->infos[0].advantage);
  CHECK(again->infos[0].correct_inf == false);
  CHECK(again->thresholds == small_table().thresholds);
  CHECK(again->slices[0].histograms[2].count() == 4);
  CHECK(again->worst_rows[0].position == 17);
}

TEST_CASE("every truncation of a table, a byte after its end and a flipped bit never crash") {
  const std::string bytes = serialise(small_table());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = deserialise(std::string_view(bytes).substr(0, size));
    CAPTURE(size);
    REQUIRE_FALSE(cut);
  }
  CHECK_FALSE(deserialise(bytes + '\0'));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x80);
    const auto table = deserialise(changed);
    // Most bytes are figures, which may have any value; what is read must be what is written again.
    if (table) CHECK(serialise(*table) == changed);
  }
}

TEST_CASE("a table of another version is refused with both versions") {
  std::string bytes = serialise(small_table());
  bytes[4] = 9;
  const auto table = deserialise(bytes);
  REQUIRE_FALSE(table);
  CHECK(table.error().code == schema::ErrorCode::unsupported);
  CHECK(table.error().message.find("version 9") != std::string::npos);
}
