#include "gpu/batched_drift.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "gpu/measure_rows.hpp"
#include "gpu/row_source.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::size_t kRowsBetweenReports = 65'536;

}  // namespace

Result<void> BatchedDrift::check_shape(const Capture& train, const Capture& inf) {
  TRY(check_reachable(train, inf, options_.device));
  if (options_.top_rows > kMaxWorstRows) {
    return schema::fail(ErrorCode::invalid_argument, "at most 10,000 worst rows can be kept");
  }
  if (is_partial(train.mode())) {
    return schema::fail(ErrorCode::unsupported,
                        train.name() + ": batches of partly known distributions are not measured");
  }
  const Shape shape{train.mode(),
                    train.vocabulary(),
                    train.columns(),
                    train.segments().front().dtype,
                    inf.segments().front().dtype,
                    train.head(),
                    inf.head(),
                    train.has_tokens()};
  if (shape_ && shape != *shape_) {
    return schema::fail(ErrorCode::not_comparable,
                        train.name() +
                            ": the batch does not match the ones before it, which have another mode, "
                            "vocabulary, width, type or head, or differ in whether there are tokens");
  }
  if (!shape_) {
    empty_ = empty_table(train, inf, options_);
    shape_ = shape;
  }
  return {};
}

Result<std::uint64_t> BatchedDrift::measure_rows(const Capture& train, const Capture& inf,
                                                 const Progress& progress) {
  std::unique_ptr<RowSource> source;
  if (train.mode() == CaptureMode::full && !backend_) {
    const std::uint32_t threads =
        options_.threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : options_.threads;
    auto backend =
        TRY(Backend::open(options_.device, threads, options_.top_k, kCudaLibrary, options_.metrics));
    backend_ = std::move(backend);
  }
  if (train.mode() == CaptureMode::full) {
    source = logit_rows(train, inf, *backend_);
  } else {
    auto opened = TRY(open_rows(train, inf, options_));
    source = std::move(opened);
  }
  const std::size_t before = figures_.size();
  figures_.resize(before + static_cast<std::size_t>(train.rows()));
  for (std::uint64_t row = 0; row < train.rows();) {
    const std::uint64_t count = std::min(source->available(row), train.rows() - row);
    const std::span<driftgate_row> out(figures_.data() + before + row, static_cast<std::size_t>(count));
    TRY(source->measure(row, out));
    for (std::uint64_t i = 0; i < count; ++i) TRY(check_row(train, row + i, out[i]));
    row += count;
    if (progress) progress(row, train.rows());
  }
  return source->rows_on_cpu();
}

Result<std::uint64_t> BatchedDrift::add_figures(const Capture& train, const Capture& inf, bool unknown,
                                                const Progress& progress) {
  if (!unknown) return measure_rows(train, inf, progress);
  figures_.resize(figures_.size() + static_cast<std::size_t>(train.rows()), unknown_row());
  if (progress) progress(train.rows(), train.rows());
  return std::uint64_t{0};
}

void BatchedDrift::keep_columns(const Capture& train) {
  sequences_.insert(sequences_.end(), train.sequence_ids().begin(), train.sequence_ids().end());
  positions_.insert(positions_.end(), train.positions().begin(), train.positions().end());
  tokens_.insert(tokens_.end(), train.token_ids().begin(), train.token_ids().end());
}

Result<void> BatchedDrift::add(const Capture& train, const Capture& inf, const Progress& progress) {
  auto other = TRY(find_other_tokens(train, inf, wanted_));
  if (!other) TRY(check_comparable(train, inf));
  TRY(check_shape(train, inf));
  // Whatever ends the batch, an exception of the caller's callback too, leaves the rows as they were.
  struct Undo {
    BatchedDrift& drift;
    std::size_t rows = drift.sequences_.size();
    bool done = false;
    ~Undo() {
      if (done) return;
      for (auto* column : {&drift.sequences_, &drift.positions_, &drift.tokens_}) {
        if (column->size() > rows) column->resize(rows);
      }
      drift.figures_.resize(rows);
      if (rows == 0) drift.shape_.reset();
    }
  } undo{*this};
  BitComparison bits = bits_;
  TRY(bits.add(train, inf));
  const std::uint64_t on_cpu = TRY(add_figures(train, inf, other || other_tokens_, progress));
  LogitCheck logits = logits_;
  for (std::uint64_t row = 0; row < train.rows(); ++row) logits.look(train, inf, row);
  keep_columns(train);
  if (other && !other_tokens_) {
    other->row += undo.rows;
    other_tokens_ = other;
    std::ranges::fill(figures_, unknown_row());
  }
  bits_ = std::move(bits);
  logits_ = std::move(logits);
  rows_on_cpu_ += on_cpu;
  undo.done = true;
  return {};
}

Result<MeasurementTable> BatchedDrift::table(const Corpus* corpus,
                                             const std::optional<std::vector<SliceAttributes>>& slices,
                                             const Progress& progress) const {
  if (other_tokens_) {
    auto out = TRY(other_tokens_table(*empty_, *other_tokens_, sequences_, positions_, corpus, slices));
    bits_.finish(out);
    return out;
  }
  Accumulator accumulator(*empty_, sequences_);
  if (corpus != nullptr) {
    TRY(attach_corpus(*corpus, accumulator.infos()));
  }
  accumulator.set_slices(slices ? *slices : described_slices(accumulator.infos()));
  accumulator.set_top_rows(options_.top_rows);
  for (std::size_t row = 0; row < figures_.size(); ++row) {
    accumulator.add(positions_[row], tokens_.empty() ? -1 : tokens_[row], figures_[row]);
    const std::size_t done = row + 1;
    if (progress && (done % kRowsBetweenReports == 0 || done == figures_.size()))
      progress(done, figures_.size());
  }
  MeasurementTable out = accumulator.finish();
  if (options_.device != "cpu") out.rows_on_cpu = rows_on_cpu_;
  logits_.finish(out);
  bits_.finish(out);
  return out;
}

}  // namespace driftgate::gpu
