#include "gpu/drift.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <utility>

#include "gpu/capture/logit_check.hpp"
#include "gpu/capture/unknown_logprob.hpp"
#include "gpu/chunks/chunked_table.hpp"
#include "gpu/measure_rows.hpp"
#include "gpu/partial/partial_drift.hpp"
#include "gpu/row_source.hpp"
#include "gpu/table/accumulator.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr double kRoundingOverZero = 1e-6;  ///< log-probabilities that engines print in float32

struct Job {
  const Capture& train;
  const Capture& inf;
  RowSource& source;
  Accumulator& accumulator;
  LogitCheck& logits;
  Range rows;
};

Result<void> run(const Job& job, const Progress& progress, const RowSink& sink) {
  const std::uint64_t total = job.train.rows();
  const bool tokens = job.train.has_tokens();
  std::vector<driftgate_row> results;
  for (std::uint64_t row = job.rows.begin; row < job.rows.end;) {
    const std::uint64_t count = std::min(job.source.available(row), job.rows.end - row);
    if (results.size() < count) results.resize(static_cast<std::size_t>(count));
    const std::span<driftgate_row> out(results.data(), static_cast<std::size_t>(count));
    TRY(job.source.measure(row, out));
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(row + i);
      TRY(check_row(job.train, row + i, out[i]));
      job.logits.look(job.train, job.inf, row + i);
      job.accumulator.add(job.train.positions()[at], tokens ? job.train.token_ids()[at] : -1, out[i]);
    }
    if (sink) {
      TRY(sink(row, out));
    }
    row += count;
    if (progress) progress(row, total);
  }
  return {};
}

/// Measures the chunks that no earlier run has kept.
Result<MeasurementTable> run_chunks(const Capture& train, const Capture& inf, RowSource& source,
                                    ChunkedTable chunks, const MeasureOptions& options,
                                    const Progress& progress, const RowSink& sink) {
  std::uint64_t taken = 0;  // rows of chunks that were taken since the last report
  const auto report_taken = [&] {
    if (std::exchange(taken, 0) > 0 && progress)
      progress(chunks.chunks()[chunks.next() - 1].end, train.rows());
  };
  while (chunks.next() < chunks.chunks().size()) {
    const Range rows = chunks.chunks()[chunks.next()];
    if (chunks.take()) {
      taken += rows.count();
      continue;
    }
    report_taken();
    if (options.chunking.stopping()) return std::unexpected(interrupted());
    Accumulator accumulator = chunks.start();
    const std::uint64_t on_cpu = source.rows_on_cpu();
    LogitCheck logits;
    TRY(run({train, inf, source, accumulator, logits, rows}, progress, sink));
    MeasurementTable table = accumulator.finish();
    logits.finish(table);
    if (options.device != "cpu") table.rows_on_cpu = source.rows_on_cpu() - on_cpu;
    TRY(chunks.add(std::move(table)));
  }
  report_taken();
  return chunks.finish();
}

}  // namespace

Result<MeasurementTable> measure(const Capture& train, const Capture& inf, const Corpus* corpus,
                                 const MeasureOptions& options, const Progress& progress,
                                 const RowSink& sink) {
  TRY(check_comparable(train, inf));
  if (options.top_rows > kMaxWorstRows) {
    return schema::fail(ErrorCode::invalid_argument, "at most 10,000 worst rows can be kept");
  }
  if (is_partial(train.mode())) {
    return measure_partial(train, inf, corpus, options, progress, static_cast<bool>(sink));
  }
  auto source = TRY(open_rows(train, inf, options));
  auto chunks = TRY(ChunkedTable::open(train, inf, corpus, options, source->engine()));
  return run_chunks(train, inf, *source, std::move(chunks), options, progress, sink);
}

Result<MeasurementTable> measure_target_tokens(std::span<const TargetTokenPair> pairs,
                                               const TargetTokenContext& context) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::vector<TargetTokenPair> known;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    TargetTokenPair pair = pairs[i];
    if (!is_known_logprob(pair.log_p) || !is_known_logprob(pair.log_q)) continue;
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
  for (const TargetTokenPair& pair : known) sequences.push_back(pair.sequence);
  Accumulator accumulator(std::move(table), sequences);
  for (SequenceInfo& info : accumulator.infos()) {
    const SequenceInfo* attributes =
        context.corpus == nullptr ? nullptr : context.corpus->find(info.sequence);
    if (attributes != nullptr) info = *attributes;
  }
  accumulator.set_slices(described_slices(accumulator.infos()));
  for (const TargetTokenPair& pair : known) {
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
