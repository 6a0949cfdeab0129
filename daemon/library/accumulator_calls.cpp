#include <fmt/format.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "daemon/library/driftgate.h"
#include "daemon/library/guard.hpp"
#include "daemon/library/kept_tensors.hpp"
#include "daemon/library/measure_options.hpp"
#include "daemon/library/memory_rows.hpp"
#include "daemon/library/objects.hpp"
#include "gpu/batched_drift.hpp"
#include "gpu/compare_bits.hpp"

using namespace driftgate;
using namespace driftgate::library;
using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::uint64_t kDefaultMaxRows = std::uint64_t{1} << 24;
constexpr const char* kTrainRows = "the rows of train";
constexpr const char* kInfRows = "the rows of inf";

using Counts = std::unordered_map<std::int64_t, std::int64_t>;  ///< by sequence

/// What every batch has or none.
struct Kind {
  bool positions = false, tokens = false, partial = false;
  bool operator==(const Kind&) const = default;
};

}  // namespace

/// Batches of whole distributions are measured as they come; partly known ones, which are small, are kept.
struct dg_accumulator {
  Options options;
  Metadata train, inf;
  std::shared_ptr<const gpu::Corpus> corpus;
  std::shared_ptr<const schema::Contract> contract;
  std::uint64_t max_rows;
  gpu::BatchedDrift whole;
  KeptTensors train_lists{}, inf_lists{};
  std::optional<Kind> kind{};
  Counts next_position{};  ///< where positions are counted

  [[nodiscard]] std::uint64_t rows() const { return whole.rows() + train_lists.rows(); }
};

namespace {

/// A batch as both captures see it.
struct Batch {
  GivenRows train, inf;
  std::vector<std::int64_t> positions;  ///< counted, where none are given
  Counts next_position;                 ///< after the batch
  Kind kind;
};

/// The position of each row, counted on from the batches before.
void count_positions(const dg_accumulator& to, const dg_rows& rows, Batch& batch) {
  batch.positions.reserve(static_cast<std::size_t>(rows.rows));
  for (std::uint64_t row = 0; row < rows.rows; ++row) {
    const std::int64_t sequence = rows.sequences == nullptr ? 0 : rows.sequences[row];
    const auto known = to.next_position.find(sequence);
    const auto next =
        batch.next_position.try_emplace(sequence, known == to.next_position.end() ? 0 : known->second);
    batch.positions.push_back(next.first->second++);
  }
}

Result<void> check_counts(const dg_accumulator& to, const dg_rows& train, const dg_rows& inf) {
  if (train.rows != inf.rows)
    return schema::fail(ErrorCode::not_comparable,
                        fmt::format("the batch has {} rows of train and {} of inf", train.rows, inf.rows));
  if (train.rows <= to.max_rows - to.rows()) return {};
  return schema::fail(
      ErrorCode::limit_exceeded,
      fmt::format(
          "{} rows and {} more are beyond the accumulator's limit of {}: raise max_rows, which costs about "
          "210 bytes a row",
          to.rows(), train.rows, to.max_rows));
}

/// What `inf` leaves out is that of `train`.
Result<Batch> read_batch(const dg_accumulator& to, dg_rows train, dg_rows inf) {
  Batch out;
  out.kind.positions = train.positions != nullptr;
  out.kind.tokens = train.tokens != nullptr;
  if (!out.kind.positions) {
    count_positions(to, train, out);
    train.positions = out.positions.data();
  }
  if (inf.sequences == nullptr) inf.sequences = train.sequences;
  if (inf.positions == nullptr) inf.positions = train.positions;
  if (inf.tokens == nullptr) inf.tokens = train.tokens;
  auto of_train = TRY(read_rows(train, kTrainRows, to.train));
  auto of_inf = TRY(read_rows(inf, kInfRows, to.inf));
  out.train = std::move(of_train);
  out.inf = std::move(of_inf);
  out.train.rows.first_row = out.inf.rows.first_row = to.rows();
  return out;
}

/// Keeps the rows of both kernels or of none.
void keep(dg_accumulator& to, const Batch& batch) {
  to.train_lists.append(batch.train.rows);
  try {
    to.inf_lists.append(batch.inf.rows);
  } catch (...) {
    to.train_lists.truncate(to.inf_lists.rows());
    throw;
  }
}

Result<void> add_batch(dg_accumulator& to, Batch& batch) {
  const auto train = TRY(gpu::Capture::of_memory(batch.train.rows));
  const auto inf = TRY(gpu::Capture::of_memory(batch.inf.rows));
  batch.kind.partial = gpu::is_partial(train.mode());
  if (to.rows() > 0 && to.kind != batch.kind)
    return schema::fail(
        ErrorCode::not_comparable,
        "the batch does not match the ones before it: positions, tokens and the kind of rows are "
        "given in all batches or in none");
  if (batch.kind.partial && to.options.keep_rows)
    return schema::fail(ErrorCode::unsupported,
                        "keep_rows needs whole distributions: lists of tokens and log-probabilities have "
                        "bounds of figures only");
  for (const auto& [sequence, next] : batch.next_position) to.next_position.try_emplace(sequence, 0);
  if (batch.kind.partial) {
    const auto other = TRY(gpu::find_other_tokens(train, inf, drift::bits_for(to.contract.get())));
    if (!other) TRY(gpu::check_comparable(train, inf));
    TRY(to.train_lists.check(batch.train.rows));
    TRY(to.inf_lists.check(batch.inf.rows));
    keep(to, batch);
  } else {
    TRY(to.whole.add(train, inf, to.options.progress));
  }
  // Nothing from here on can fail: the batch is in.
  for (const auto& [sequence, next] : batch.next_position) to.next_position.find(sequence)->second = next;
  to.kind = batch.kind;
  return {};
}

Result<void> add(dg_accumulator& to, const dg_rows* train_rows, const dg_rows* inf_rows) {
  dg_rows train = TRY(read_struct(train_rows, kTrainRows));
  dg_rows inf = TRY(read_struct(inf_rows, kInfRows));
  train.struct_size = inf.struct_size = sizeof(dg_rows);
  TRY(check_counts(to, train, inf));
  if (train.rows == 0) return {};
  Batch batch = TRY(read_batch(to, train, inf));
  return add_batch(to, batch);
}

Result<std::unique_ptr<dg_result>> finish(const dg_accumulator& of) {
  if (of.rows() == 0) return schema::fail(ErrorCode::conflict, "the accumulator has no rows yet");
  auto result = std::make_unique<dg_result>();
  const gpu::MeasureOptions options = of.options.for_terms(of.contract.get(), of.corpus.get());
  if (of.kind->partial) {
    const auto train = TRY(gpu::Capture::of_memory(of.train_lists.view(kTrainRows)));
    const auto inf = TRY(gpu::Capture::of_memory(of.inf_lists.view(kInfRows)));
    auto table = TRY(gpu::measure_with_bits(train, inf, of.corpus.get(), options,
                                            drift::bits_for(of.contract.get()), of.options.progress));
    result->table = std::move(table);
  } else {
    auto table = TRY(of.whole.table(of.corpus.get(), options.slices, of.options.progress));
    result->table = std::move(table);
    if (of.options.keep_rows) append_figures(of.whole.figures(), result->figures.emplace());
  }
  make_report(*result, of.options, {of.contract.get(), of.kind->tokens, of.kind->partial});
  return result;
}

Result<std::unique_ptr<dg_accumulator>> create(const dg_accumulator_options& given) {
  Options options = TRY(read_options(given.options));
  Metadata train = TRY(metadata_of(given.train, "the identity of train"));
  Metadata inf = TRY(metadata_of(given.inf, "the identity of inf"));
  auto corpus = given.corpus == nullptr ? nullptr : given.corpus->corpus;
  auto contract = given.contract == nullptr ? nullptr : given.contract->contract;
  gpu::BatchedDrift whole(options.for_terms(contract.get(), corpus.get()), drift::bits_for(contract.get()));
  const std::uint64_t max_rows = given.max_rows == 0 ? kDefaultMaxRows : given.max_rows;
  if (max_rows > kMaxRows)
    return schema::fail(ErrorCode::limit_exceeded, fmt::format("max_rows is at most {}", kMaxRows));
  return std::make_unique<dg_accumulator>(std::move(options), std::move(train), std::move(inf),
                                          std::move(corpus), std::move(contract), max_rows, std::move(whole));
}

}  // namespace

extern "C" {

dg_status dg_accumulator_create(const dg_accumulator_options* options, dg_accumulator** out,
                                dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(out, "out"));
    const dg_accumulator_options given = TRY(read_optional(options, "the options of the accumulator"));
    auto made = TRY(create(given));
    *out = made.release();
    return {};
  });
}

dg_status dg_accumulator_add(dg_accumulator* accumulator, const dg_rows* train, const dg_rows* inf,
                             dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(accumulator, "accumulator"));
    return add(*accumulator, train, inf);
  });
}

uint64_t dg_accumulator_rows(const dg_accumulator* accumulator) {
  return accumulator->rows();
}

dg_status dg_accumulator_finish(dg_accumulator* accumulator, dg_result** out, dg_error* error) {
  return guarded(error, [&]() -> Result<void> {
    TRY(needed(accumulator, "accumulator"));
    TRY(needed(out, "out"));
    auto result = TRY(finish(*accumulator));
    *out = result.release();
    return {};
  });
}

void dg_accumulator_close(dg_accumulator* accumulator) {
  delete accumulator;
}

}  // extern "C"
