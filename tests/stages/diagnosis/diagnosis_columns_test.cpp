#include <doctest/doctest.h>

#include "stages/diagnosis/diagnosis.hpp"

using namespace driftgate;
using namespace driftgate::stages;

namespace {

gpu::Moments even(std::uint64_t n, double value) {
  gpu::Moments out;
  for (std::uint64_t i = 0; i < n; ++i) out.add(value);
  return out;
}

gpu::OffsetSums offsets(std::uint64_t n, double value) {
  gpu::OffsetSums out;
  for (std::uint64_t i = 0; i < n; ++i) out.add(value);
  return out;
}

/// Twenty sequences of ten rows with a drift that fits no pattern. Without knowledge of the tokens a sequence
/// loses 0.1 nats on them.
gpu::MeasurementTable table_of(double log_w_of_sequence = 0.1) {
  gpu::MeasurementTable table;
  table.vocabulary = 1'000;
  table.has_tokens = true;
  table.train.kernel = "p", table.inf.kernel = "q";
  table.train.token_source = table.inf.token_source = "corpus";
  for (int i = 0; i < 20; ++i) {
    gpu::SequenceRow row;
    row.sequence = i;
    row.rows = 10;
    const auto set = [&row](schema::Metric metric, double value) {
      row.metrics[static_cast<std::size_t>(metric)] = even(10, value);
    };
    set(schema::Metric::tv, 0.02), set(schema::Metric::kl_inf_train, 0.01),
        set(schema::Metric::kl_train_inf, 0.01), set(schema::Metric::logit_rms, 0.1);
    set(schema::Metric::top1_flip, 0.01), set(schema::Metric::topk_overlap, 0.95);
    set(schema::Metric::logit_span, 1), set(schema::Metric::entropy_train, 2);
    row.contrast.rows = 10;
    row.contrast.entropy_gap = 0.5;
    row.contrast.entropy_up = 5;
    row.target.n = 10;
    row.target.log_w = log_w_of_sequence;
    table.rows += 10;
    table.sequences.push_back(row);
    table.infos.emplace_back().sequence = i;
  }
  gpu::ColumnContrast& columns = table.columns.emplace();
  columns.rows = 200;
  columns.block_columns = 10;
  columns.blocks.assign(100, offsets(2'000, 0.01));
  columns.before = offsets(900, 0.012);
  columns.others = offsets(190'000, 0.01);
  return table;
}

std::string first_pattern(const gpu::MeasurementTable& table) {
  const Diagnosis diagnosis = diagnose(table);
  return diagnosis.suspicions.empty() ? "nothing"
                                      : std::string(to_string(diagnosis.suspicions.front().pattern));
}

void set_blocks(gpu::MeasurementTable& table, std::size_t first, std::size_t end, double value) {
  for (std::size_t i = first; i < end; ++i) table.columns->blocks[i] = offsets(2'000, value);
}

}  // namespace

TEST_CASE(
    "one range of columns that drifts is told by its tokens, and scattered ones are not called a range") {
  CHECK(first_pattern(table_of()) == "nothing");
  gpu::MeasurementTable table = table_of();
  set_blocks(table, 25, 50, 0.6);
  table.columns->blocks[30] = offsets(2'000, 0.01);  // a gap does not end it
  const Diagnosis diagnosis = diagnose(table);
  REQUIRE(diagnosis.suspicions.size() == 1);
  CHECK(diagnosis.suspicions.front().pattern == Pattern::column_range);
  CHECK(diagnosis.suspicions.front().where == "tokens 250 to 499");
  CHECK(diagnosis.suspicions.front().figures.at("rms_inside") == doctest::Approx(0.6).epsilon(0.05));
  set_blocks(table, 60, 64, 0.6);
  CHECK(first_pattern(table) == "nothing");  // 4 of the 75 others
  table = table_of();
  for (std::size_t i = 0; i < 100; i += 4) set_blocks(table, i, i + 1, 0.6);
  CHECK(first_pattern(table) == "nothing");
  table = table_of();
  set_blocks(table, 10, 13, 0.6);
  CHECK(first_pattern(table) == "nothing");  // three blocks
  table = table_of();
  set_blocks(table, 25, 50, 0.3);
  CHECK(first_pattern(table) == "nothing");  // thirty times the quiet ones, as rounding may leave it
}

TEST_CASE("tokens that were there before and are all less likely mean a penalty, on either side") {
  gpu::MeasurementTable table = table_of();
  table.columns->before = offsets(900, 0.2);
  CHECK(first_pattern(table) == "penalty");
  CHECK(diagnose(table).suspicions.front().looks_like.starts_with("a penalty on tokens"));
  table.columns->before = offsets(900, -0.2);
  CHECK(diagnose(table).suspicions.front().looks_like.starts_with("a penalty of K_train on tokens"));
  for (int i = 0; i < 100; ++i) table.columns->before.add(0.2);
  CHECK(first_pattern(table) == "nothing");  // a tenth of them is more likely
  table.columns->before = offsets(199, 0.2);
  CHECK(first_pattern(table) == "nothing");
  table.columns->before = offsets(900, 0.029);
  CHECK(first_pattern(table) == "nothing");  // not three times the others
}

TEST_CASE("a kernel that is likelier on the target tokens than its drift allows knows them") {
  CHECK(first_pattern(table_of(-0.2)) == "leaks_target");  // 0.02 nats a token, at a kl_inf_train of 0.01
  CHECK(first_pattern(table_of(0.1)) == "nothing");        // what KL(p‖q) lets expect
  gpu::MeasurementTable own = table_of(-0.2);
  own.train.token_source = own.inf.token_source = "q";
  CHECK(first_pattern(own) == "nothing");  // its own samples
  gpu::MeasurementTable some = table_of(0.1);
  for (std::size_t i = 0; i < 4; ++i) some.sequences[i].target.log_w = -1;
  CHECK(first_pattern(some) == "nothing");  // on average it knows, but not for certain
}

TEST_CASE(
    "a kernel that loses less on the target tokens than its drift lets expect knows something of them") {
  gpu::MeasurementTable table = table_of(0.01);  // loses a tenth of KL(p‖q)
  for (std::size_t i = 0; i < 20; ++i) table.sequences[i].target.log_w += i % 2 == 0 ? 0.05 : -0.05;
  CHECK(first_pattern(table) == "leaks_target");
  CHECK(diagnose(table).suspicions.front().figures.at("standard_errors") ==
        doctest::Approx(8.05).epsilon(0.01));
  for (std::size_t i = 0; i < 20; ++i) table.sequences[i].target.log_w += 0.03;
  CHECK(first_pattern(table) == "nothing");  // loses two fifths of it
}
