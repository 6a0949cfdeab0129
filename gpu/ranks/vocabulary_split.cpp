#include "gpu/ranks/vocabulary_split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/cpu/row_figures.hpp"
#include "gpu/measure_rows.hpp"
#include "gpu/ranks/exchange_thread.hpp"
#include "gpu/ranks/rank_layout.hpp"
#include "gpu/ranks/shard_merge.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

/// Bytes that the CPU engine may keep of a batch for each thread between the passes, and bytes that it keeps
/// for each column (a float32 exponential and drift). Two batches of this size, one in each pass, stay in the
/// L2 cache. Longer batches were slower, shorter ones no faster.
constexpr std::uint64_t kCachedBytes = std::uint64_t{512} << 10;
constexpr std::uint64_t kCachedBytesOfColumn = 8;
/// Approximate bytes of a batch for other engines: enough to be worth a launch.
constexpr std::uint64_t kBatchBytes = std::uint64_t{512} << 20;
constexpr std::uint64_t kMaxRows = 8'192;
constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{16}
                                           << 20;  ///< of all ranks together, in one exchange
/// Number of batches whose messages may be under way; engines hold DRIFTGATE_SHARD_SLOTS of them.
constexpr std::size_t kInFlight = 4;

/// One batch, from its first pass to the figures of its last row.
struct Batch {
  driftgate_batch logits{};
  driftgate_shard shard{};
  std::uint64_t first_row = 0;
  std::vector<std::byte> mine, all;  ///< messages of pass 1
  std::vector<driftgate_shard_row> merged;
  std::vector<driftgate_shard_terms> terms, all_terms;
  /// Its exchanges: numbers of jobs of the exchange thread, or results of Collective::begin.
  std::uint64_t merging = 0, finishing = 0;
  bool pending = false;  ///< its rows have no figures yet

  [[nodiscard]] std::string rows_text() const {
    return fmt::format("rows {} to {}", first_row, first_row + logits.rows - 1);
  }
};

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

std::uint64_t rows_of_batch(const SplitJob& job, const ShardMerger& merger, std::uint64_t columns) {
  const bool cpu = job.backend.describe().starts_with("cpu");
  const std::uint64_t bytes = cpu ? kCachedBytes * job.threads : kBatchBytes;
  const std::uint64_t most = bytes / (kCachedBytesOfColumn * columns);
  const std::uint64_t exchanged = kMaxMessageBytes / (job.collective.size() * merger.partial_bytes(1));
  return std::clamp<std::uint64_t>(std::min(most, exchanged), 1, kMaxRows);
}

/// The smallest batch that any rank proposes: engines and numbers of threads may differ.
Result<std::uint64_t> agreed(const SplitJob& job, std::uint64_t rows) {
  std::vector<std::uint64_t> all(job.collective.size());
  const Wait wait{"the rows of a batch", job.timeout};
  TRY(job.collective.all_gather(wait, std::as_bytes(std::span(&rows, 1)), bytes_of(all)));
  return std::ranges::min(all);
}

class Split {
 public:
  Split(const SplitJob& job, Range columns, std::uint64_t most_rows, const ShardMerger& merger,
        const RowSink& sink)
      : job_(job),
        columns_(columns),
        most_rows_(most_rows),
        merger_(merger),
        sink_(sink),
        train_(job.train),
        inf_(job.inf) {}

  Result<void> run(const Progress& progress) {
    if (!job_.collective.in_steps()) exchanges_.emplace();
    const std::uint64_t total = job_.train.rows();
    Batch* before = nullptr;
    std::size_t number = 0;
    for (std::uint64_t row = job_.rows.begin; row < job_.rows.end; ++number) {
      Batch& batch = batches_[number % kInFlight];
      TRY(complete(batch));
      TRY(first_pass(batch, row, number));
      if (before != nullptr) {
        TRY(second_pass(*before));
      }
      before = &batch;
      row += batch.logits.rows;
      if (progress) progress(row, total);
    }
    if (before == nullptr) return {};
    TRY(second_pass(*before));
    for (std::size_t i = 0; i < kInFlight; ++i) {
      TRY(complete(batches_[(number + i) % kInFlight]));
    }
    return {};
  }

 private:
  /// The columns of this rank in the rows that are contiguous in both captures.
  void cut(Batch& batch, std::uint64_t row) {
    const std::uint64_t count =
        std::min({most_rows_, train_.available(row), inf_.available(row), job_.rows.end - row});
    const auto part = [&](driftgate_logits logits) {
      const std::uint64_t width = logits.row_stride_bytes / job_.train.vocabulary();
      logits.data = static_cast<const std::byte*>(logits.data) + columns_.begin * width;
      return logits;
    };
    batch.first_row = row;
    batch.logits = {sizeof(driftgate_batch),
                    static_cast<std::uint32_t>(columns_.count()),
                    count,
                    part(train_.view(row)),
                    part(inf_.view(row)),
                    job_.train.has_tokens() ? job_.train.token_ids().data() + row : nullptr,
                    job_.train.identity().temperature};
  }

  Result<void> first_pass(Batch& batch, std::uint64_t row, std::size_t number) {
    for (const Capture* capture : {&job_.train, &job_.inf}) {
      TRY(capture->check_unchanged());
    }
    cut(batch, row);
    batch.shard = {sizeof(driftgate_shard), static_cast<std::uint32_t>(columns_.begin),
                   job_.train.vocabulary(), static_cast<std::uint32_t>(number % DRIFTGATE_SHARD_SLOTS)};
    const std::uint64_t rows = batch.logits.rows;
    batch.mine.resize(merger_.partial_bytes(rows));
    if (auto ok = job_.backend.shard_pass1(batch.logits, batch.shard, ShardMerger::partials(batch.mine, rows),
                                           merger_.top(batch.mine, rows));
        !ok) {
      return ok;
    }
    if (!exchanges_) return begin(Collective::Gathering::at_all, pass1_of(batch), batch.mine, batch.merging);
    batch.merging = exchanges_->submit([this, &batch] { return merge(batch); });
    return {};
  }

  Result<void> begin(Collective::Gathering gathering, const Wait& wait, std::span<const std::byte> mine,
                     std::uint64_t& number) {
    const auto begun = TRY(job_.collective.begin(gathering, wait, mine));
    number = begun;
    return {};
  }

  [[nodiscard]] Wait pass1_of(const Batch& batch) const {
    return {"pass 1 of " + batch.rows_text(), job_.timeout};
  }
  [[nodiscard]] Wait pass2_of(const Batch& batch) const {
    return {"pass 2 of " + batch.rows_text(), job_.timeout};
  }

  Result<void> merge(Batch& batch) {
    batch.all.resize(job_.collective.size() * batch.mine.size());
    batch.merged.resize(static_cast<std::size_t>(batch.logits.rows));
    auto ok = exchanges_ ? job_.collective.all_gather(pass1_of(batch), batch.mine, batch.all)
                         : job_.collective.finish(batch.merging, pass1_of(batch), batch.all);
    if (!ok) return ok;
    merger_.merge(batch.all, batch.merged);
    return {};
  }

  Result<void> second_pass(Batch& batch) {
    TRY(exchanges_ ? exchanges_->wait(batch.merging) : merge(batch));
    batch.terms.resize(static_cast<std::size_t>(batch.logits.rows));
    TRY(job_.backend.shard_pass2(batch.logits, batch.shard, batch.merged, batch.terms));
    batch.pending = true;
    const auto terms = bytes_of(std::as_const(batch.terms));
    if (!exchanges_) return begin(Collective::Gathering::at_root, pass2_of(batch), terms, batch.finishing);
    batch.finishing = exchanges_->submit([this, &batch] { return finish(batch); });
    return {};
  }

  /// Waits until the rows of the batch have their figures; those of earlier batches have them.
  Result<void> complete(Batch& batch) {
    if (!std::exchange(batch.pending, false)) return {};
    return exchanges_ ? exchanges_->wait(batch.finishing) : finish(batch);
  }

  Result<void> finish(Batch& batch) {
    const bool root = job_.collective.rank() == 0;
    batch.all_terms.resize(root ? job_.collective.size() * batch.terms.size() : 0);
    const auto all = bytes_of(batch.all_terms);
    auto arrived = exchanges_
                       ? job_.collective.gather(pass2_of(batch), bytes_of(std::as_const(batch.terms)), all)
                       : job_.collective.finish(batch.finishing, pass2_of(batch), all);
    if (!arrived || !root) return arrived;
    rows_.resize(batch.terms.size());
    merger_.finish(batch.all, batch.merged, batch.all_terms, rows_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto at = static_cast<std::size_t>(batch.first_row) + i;
      if (job_.metrics == DRIFTGATE_METRICS_CORE) cpu::keep_core(rows_[i]);
      TRY(check_row(job_.train, batch.first_row + i, rows_[i]));
      job_.logits.look(job_.train, job_.inf, batch.first_row + i);
      job_.accumulator->add(job_.train.positions()[at],
                            job_.train.has_tokens() ? job_.train.token_ids()[at] : -1, rows_[i]);
    }
    return sink_ ? sink_(batch.first_row, rows_) : Result<void>{};
  }

  const SplitJob& job_;
  Range columns_;
  std::uint64_t most_rows_;
  const ShardMerger& merger_;
  const RowSink& sink_;
  LogitsCursor train_, inf_;
  std::array<Batch, kInFlight> batches_;
  std::vector<driftgate_row> rows_;
  /// Present unless the ranks exchange in steps. Last member, because its jobs use those above.
  std::optional<ExchangeThread> exchanges_;
};

}  // namespace

Result<void> measure_split(const SplitJob& job, const Progress& progress, const RowSink& sink) {
  if (job.train.mode() != CaptureMode::full) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("the vocabulary of a capture in {} mode cannot be split over ranks; "
                                    "split its rows instead (--shard rows)",
                                    to_string(job.train.mode())));
  }
  if (!job.backend.can_shard()) {
    return schema::fail(
        ErrorCode::unsupported,
        fmt::format("the engine '{}' evaluates whole rows only; split rows instead (--shard rows)",
                    job.backend.describe()));
  }
  const std::uint32_t ranks = job.collective.size();
  const auto columns = TRY(column_ranges(job.train.vocabulary(), ranks));
  const std::uint64_t widest = std::ranges::max(columns, {}, &Range::count).count();
  const ShardMerger merger(ranks, job.top_k, job.train.identity().temperature);
  const auto rows = TRY(agreed(job, rows_of_batch(job, merger, widest)));
  Split split(job, columns[job.collective.rank()], rows, merger, sink);
  auto result = split.run(progress);
  // Before joining the exchange thread, which may be waiting for the others.
  if (!result) job.collective.leave(at_rank(result.error(), job.collective.rank(), ranks));
  return result;
}

}  // namespace driftgate::gpu
