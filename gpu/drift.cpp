#include "gpu/drift.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <thread>

#include "gpu/accumulator.hpp"
#include "gpu/backend_loader.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

/// Bytes of both kernels' logits in one batch, about: often enough for a progress bar, seldom enough to
/// start threads.
constexpr std::uint64_t kBatchBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxBatchRows = 8'192;
constexpr double kRoundingOverZero = 1e-6;  ///< log-probabilities that engines print in float32
constexpr double kUnknownLogprob = -9999.0;

std::uint32_t backend_dtype(DType dtype) {
  if (dtype == DType::f32) return DRIFTGATE_F32;
  return dtype == DType::f16 ? DRIFTGATE_F16 : DRIFTGATE_BF16;
}

/// Walks the segments of one capture in row order.
class LogitsCursor {
 public:
  explicit LogitsCursor(const Capture& capture) : capture_(capture) {}
  /// Rows from `row` on that lie in one piece.
  std::uint64_t available(std::uint64_t row) {
    while (row >= segment().first_row + segment().rows) ++at_;
    return segment().first_row + segment().rows - row;
  }
  [[nodiscard]] driftgate_logits view(std::uint64_t row) const {
    const std::uint64_t stride = capture_.vocabulary() * size_bytes(segment().dtype);
    return {segment().logits + (row - segment().first_row) * stride, stride, backend_dtype(segment().dtype),
            0};
  }

 private:
  [[nodiscard]] const CaptureSegment& segment() const { return capture_.segments()[at_]; }
  const Capture& capture_;
  std::size_t at_ = 0;
};

std::uint64_t batch_rows(const Capture& train) {
  const std::uint64_t pair_bytes = std::uint64_t{8} * train.vocabulary();
  return std::clamp<std::uint64_t>(kBatchBytes / pair_bytes, 1, kMaxBatchRows);
}

Result<void> attach_corpus(const Corpus& corpus, std::vector<SequenceInfo>& infos) {
  for (SequenceInfo& info : infos) {
    const SequenceInfo* known = corpus.find(info.sequence);
    if (known == nullptr) {
      return schema::fail(
          ErrorCode::not_comparable,
          fmt::format("the captures hold sequence {}, which the corpus does not: is it the corpus that "
                      "was captured?",
                      info.sequence));
    }
    info = *known;
  }
  return {};
}

Result<void> check_row(const Capture& capture, std::uint64_t row, const driftgate_row& result) {
  if (result.status == DRIFTGATE_ROW_OK || result.status == DRIFTGATE_ROW_NONFINITE) return {};
  const auto at = static_cast<std::size_t>(row);
  const std::string where = fmt::format("row {} (sequence {}, position {})", row, capture.sequence_ids()[at],
                                        capture.positions()[at]);
  if (result.status == DRIFTGATE_ROW_ALL_MASKED) {
    return schema::fail(ErrorCode::invalid_capture, where + ": every logit is -Infinity in both captures");
  }
  return schema::fail(
      ErrorCode::invalid_capture,
      fmt::format("{}: the realised token {} is masked (-Infinity) in both captures, so it can not have "
                  "been realised; capture logits before any filter",
                  where, capture.token_ids()[at]));
}

MeasurementTable empty_table(const Capture& train, const Capture& inf, const MeasureOptions& options) {
  MeasurementTable table;
  table.train = train.identity();
  table.inf = inf.identity();
  table.vocabulary = train.vocabulary();
  table.top_k = options.top_k;
  table.ppo_clip = options.ppo_clip;
  table.is_clip = options.is_clip;
  table.has_tokens = train.has_tokens();
  table.thresholds = options.thresholds;
  return table;
}

struct Job {
  const Capture& train;
  const Capture& inf;
  Backend& backend;
  Accumulator& accumulator;
};

Result<void> run(const Job& job, const Progress& progress, const RowSink& sink) {
  const std::uint64_t total = job.train.rows();
  const std::uint64_t most = batch_rows(job.train);
  std::vector<driftgate_row> results(static_cast<std::size_t>(std::min(most, total)));
  LogitsCursor train(job.train);
  LogitsCursor inf(job.inf);
  for (std::uint64_t row = 0; row < total;) {
    const std::uint64_t count = std::min({most, train.available(row), inf.available(row)});
    for (const Capture* capture : {&job.train, &job.inf}) {
      if (auto ok = capture->check_unchanged(); !ok) return ok;
    }
    const bool tokens = job.train.has_tokens();
    driftgate_batch batch{sizeof(driftgate_batch),
                          job.train.vocabulary(),
                          count,
                          train.view(row),
                          inf.view(row),
                          tokens ? job.train.token_ids().data() + row : nullptr,
                          job.train.identity().temperature};
    const std::span<driftgate_row> out(results.data(), static_cast<std::size_t>(count));
    if (auto ok = job.backend.measure(batch, out); !ok) return ok;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(row + i);
      if (auto ok = check_row(job.train, row + i, out[i]); !ok) return ok;
      job.accumulator.add(job.train.positions()[at], tokens ? job.train.token_ids()[at] : -1, out[i]);
    }
    if (sink) {
      if (auto ok = sink(row, out); !ok) return ok;
    }
    row += count;
    if (progress) progress(row, total);
  }
  return {};
}

}  // namespace

Result<MeasurementTable> measure(const Capture& train, const Capture& inf, const Corpus* corpus,
                                 const MeasureOptions& options, const Progress& progress,
                                 const RowSink& sink) {
  if (auto ok = check_comparable(train, inf); !ok) return std::unexpected(ok.error());
  if (train.mode() != CaptureMode::full) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("{} is a capture in {} mode, which this build does not evaluate",
                                    train.name(), to_string(train.mode())));
  }
  if (options.top_rows > kMaxWorstRows) {
    return schema::fail(ErrorCode::invalid_argument, "at most 10,000 worst rows can be kept");
  }
  const std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
  auto backend = Backend::open(options.device, options.threads == 0 ? processors : options.threads,
                               options.top_k, kCudaLibrary, options.metrics);
  if (!backend) return std::unexpected(backend.error());
  Accumulator accumulator(empty_table(train, inf, options), train.sequence_ids());
  if (corpus != nullptr) {
    if (auto ok = attach_corpus(*corpus, accumulator.infos()); !ok) return std::unexpected(ok.error());
  }
  accumulator.set_slices(options.slices ? *options.slices : described_slices(accumulator.infos()));
  accumulator.set_top_rows(options.top_rows);
  if (auto ok = run({train, inf, *backend, accumulator}, progress, sink); !ok)
    return std::unexpected(ok.error());
  return accumulator.finish();
}

Result<MeasurementTable> measure_realised(std::span<const RealisedPair> pairs,
                                          const RealisedContext& context) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<RealisedPair> known;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    RealisedPair pair = pairs[i];
    const auto unknown = [](double value) { return !(value > kUnknownLogprob) || value > 1e300; };
    if (unknown(pair.log_p) || unknown(pair.log_q)) continue;
    if (std::max(pair.log_p, pair.log_q) > kRoundingOverZero) {
      return schema::fail(
          ErrorCode::invalid_argument,
          fmt::format("pair {} (sequence {}) has the positive log-probability {}; natural logarithms of "
                      "probabilities are at most 0",
                      i, pair.sequence, std::max(pair.log_p, pair.log_q)));
    }
    pair.log_p = std::min(pair.log_p, 0.0);
    pair.log_q = std::min(pair.log_q, 0.0);
    known.push_back(pair);
  }
  MeasurementTable table;
  table.train = context.train;
  table.inf = context.inf;
  table.ppo_clip = context.ppo_clip;
  table.is_clip = context.is_clip;
  table.thresholds = context.thresholds;
  table.has_tokens = !known.empty();
  std::vector<std::int64_t> sequences;
  for (const RealisedPair& pair : known) sequences.push_back(pair.sequence);
  Accumulator accumulator(std::move(table), sequences);
  for (SequenceInfo& info : accumulator.infos()) {
    const SequenceInfo* attributes =
        context.corpus == nullptr ? nullptr : context.corpus->find(info.sequence);
    if (attributes != nullptr) info = *attributes;
  }
  accumulator.set_slices(described_slices(accumulator.infos()));
  for (const RealisedPair& pair : known) {
    driftgate_row row{};
    std::ranges::fill(row.values, kNaN);
    row.head_tail_tv = row.top_train = row.top_inf = kNaN;
    row.values[static_cast<std::size_t>(Metric::logprob_train)] = pair.log_p;
    row.values[static_cast<std::size_t>(Metric::logprob_inf)] = pair.log_q;
    row.values[static_cast<std::size_t>(Metric::log_ratio)] = pair.log_p - pair.log_q;
    accumulator.add(0, -1, row);
  }
  return accumulator.finish();
}

}  // namespace driftgate::gpu
