#include "gpu/ranks/ranked_drift.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "gpu/chunks/chunked_table.hpp"
#include "gpu/measure_rows.hpp"
#include "gpu/ranks/collective_loader.hpp"
#include "gpu/ranks/rank_layout.hpp"
#include "gpu/ranks/rank_progress.hpp"
#include "gpu/ranks/thread_ranks.hpp"
#include "gpu/ranks/vocabulary_split.hpp"
#include "gpu/table/measurement_merge.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

using Table = std::optional<MeasurementTable>;

struct Parts {
  Collective& collective;
  const Capture& train;
  const Capture& inf;
  const Corpus* corpus;
  const MeasureOptions& options;
  const RankOptions& ranks;
};

/// A digest of everything that all ranks must agree on.
std::uint64_t job_digest(const Parts& parts) {
  std::string text = fmt::format("{} {} {} {}", static_cast<int>(parts.ranks.shard), parts.options.top_k,
                                 parts.options.metrics, parts.options.top_rows);
  if (parts.options.chunking.store != nullptr)
    text += fmt::format("|{} {}", parts.options.chunking.name, parts.options.chunking.bytes);
  for (const Capture* capture : {&parts.train, &parts.inf}) {
    const CaptureIdentity& id = capture->identity();
    text += fmt::format("|{}|{}|{}|{}|{}|{}|{}", id.kernel, id.checkpoint_digest, id.corpus_digest,
                        id.temperature, capture->rows(), capture->vocabulary(), to_string(capture->mode()));
    for (const CaptureSegment& segment : capture->segments()) text += fmt::format("|{}", segment.rows);
  }
  for (const Threshold& threshold : parts.options.thresholds)
    text += fmt::format("|{} {} {}", static_cast<int>(threshold.metric), threshold.value, threshold.above);
  return std::hash<std::string>{}(text);
}

Result<void> check_agreement(const Parts& parts) {
  const std::uint64_t mine = job_digest(parts);
  std::vector<std::uint64_t> all(parts.collective.size());
  if (auto ok = parts.collective.all_gather({"comparing captures and options", parts.ranks.timeout},
                                            std::as_bytes(std::span(&mine, 1)),
                                            std::as_writable_bytes(std::span(all)));
      !ok) {
    return ok;
  }
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return std::unexpected(
        at_rank({ErrorCode::not_comparable,
                 "this rank has other captures or options than rank 0: start every rank with the same "
                 "arguments, and with paths of the same files",
                 {},
                 nullptr},
                rank, parts.collective.size()));
  }
  return {};
}

/// The slices of the whole corpus, which each rank must histogram even if it holds no row of them.
Result<std::vector<SliceAttributes>> all_slices(const Parts& parts) {
  if (parts.options.slices) return *parts.options.slices;
  Accumulator accumulator(empty_table(parts.train, parts.inf, parts.options), parts.train.sequence_ids());
  if (parts.corpus != nullptr) {
    TRY(attach_corpus(*parts.corpus, accumulator.infos()));
  }
  return described_slices(accumulator.infos());
}

Result<Table> merged(const std::vector<std::string>& texts, std::size_t top_rows) {
  Table out;
  for (const std::string& text : texts) {
    if (text.empty()) continue;  // a rank without rows
    auto table = TRY(deserialise(text));
    if (!out) {
      out = std::move(table);
    } else if (auto ok = merge(*out, std::move(table), top_rows); !ok) {
      return std::unexpected(ok.error());
    }
  }
  return out;
}

/// What a rank sends in the place of its table when it has stopped between two chunks.
constexpr std::string_view kStopped = "stopped";

/// Rank 0 tells the others whether a rank has stopped, so that all of them end in the same way.
Result<void> agree_to_go_on(const Parts& parts, bool stopped) {
  if (parts.options.chunking.store == nullptr) return {};
  std::byte told{stopped};
  TRY(parts.collective.broadcast({"whether all ranks have measured", parts.ranks.timeout}, {&told, 1}));
  if (told != std::byte{}) return std::unexpected(interrupted());
  return {};
}

Result<Table> measure_own_rows(const Parts& parts, const Progress& progress) {
  const auto ranges = row_ranges(parts.train.sequence_ids(), parts.collective.size());
  const Range own = ranges[parts.collective.rank()];
  // A rank learns after each batch how far it is; more rounds than batches would tell the others nothing.
  const std::uint64_t batch = batch_rows(parts.train);
  const std::uint64_t longest = (std::ranges::max(ranges, {}, &Range::count).count() + batch - 1) / batch;
  auto slices = TRY(all_slices(parts));
  MeasureOptions options = parts.options;
  options.slices = std::move(slices);

  std::string text;
  {
    RankProgress rank_progress(parts.collective, parts.ranks.timeout, own.count(), longest,
                               parts.train.rows(), progress, options.chunking.stop);
    if (options.chunking.store != nullptr) {
      options.chunking.name +=
          fmt::format("-rows-{}-of-{}", parts.collective.rank(), parts.collective.size());
      options.chunking.stop = [&rank_progress] { return rank_progress.stopping(); };
    }
    if (own.count() > 0) {
      const auto table = measure(
          parts.train.slice(own.begin, own.count()), parts.inf.slice(own.begin, own.count()), parts.corpus,
          options, [&rank_progress](std::uint64_t done, std::uint64_t) { rank_progress.reached(done); },
          [&rank_progress](std::uint64_t, std::span<const driftgate_row>) {
            return rank_progress.failure();
          });
      if (!table && !is_interruption(table.error())) {
        // Before joining the progress thread, which may be waiting for the others.
        parts.collective.leave(at_rank(table.error(), parts.collective.rank(), parts.collective.size()));
        return std::unexpected(table.error());
      }
      text = table ? serialise(*table) : std::string(kStopped);
    }
    TRY(rank_progress.finish());
  }
  const auto texts = TRY(parts.collective.gather_text({"the ranks' tables", parts.ranks.timeout}, text));
  TRY(agree_to_go_on(parts, std::ranges::find(texts, kStopped) != texts.end()));
  return merged(texts, options.top_rows);
}

/// What a measurement by columns goes through for each chunk of rows.
class Columns {
 public:
  Columns(const Parts& parts, Backend& backend, std::uint32_t threads)
      : parts_(parts), backend_(backend), threads_(threads) {}

  /// The table, at rank 0, which keeps the chunks.
  Result<Table> run(const Progress& progress, const RowSink& sink) {
    const bool root = parts_.collective.rank() == 0;
    MeasureOptions options = parts_.options;
    options.chunking.name += fmt::format("-vocab-of-{}", parts_.collective.size());
    const auto engine = TRY(engines());
    auto chunks = TRY(ChunkedTable::open(parts_.train, parts_.inf, parts_.corpus, options, engine));
    std::uint64_t unreported = 0;  // rows up to here, of chunks that were taken
    const auto report_taken = [&] {
      const std::uint64_t rows = std::exchange(unreported, 0);
      if (rows > 0 && root && progress) progress(rows, parts_.train.rows());
    };
    for (const Range& rows : chunks.chunks()) {
      const bool taken = root && chunks.take();
      const auto skip = TRY(skips(taken));
      if (skip) {
        unreported = rows.end;
        continue;
      }
      report_taken();
      std::optional<Accumulator> accumulator;
      if (root) accumulator.emplace(chunks.start());
      LogitCheck logits;
      TRY(measure_rows(rows, root ? &*accumulator : nullptr, logits, progress, sink));
      if (!root) continue;
      MeasurementTable table = accumulator->finish();
      logits.finish(table);
      if (options.device != "cpu") table.rows_on_cpu = 0;  // parts of rows are never left to the CPU
      TRY(chunks.add(std::move(table)));
    }
    report_taken();
    return root ? Table(chunks.finish()) : Table();
  }

 private:
  Result<void> measure_rows(const Range& rows, Accumulator* accumulator, LogitCheck& logits,
                            const Progress& progress, const RowSink& sink) {
    const SplitJob job{parts_.train,
                       parts_.inf,
                       backend_,
                       parts_.collective,
                       accumulator,
                       logits,
                       parts_.options.top_k,
                       parts_.options.metrics,
                       parts_.ranks.timeout,
                       threads_,
                       rows};
    return measure_split(job, accumulator != nullptr ? progress : Progress{}, sink);
  }

  /// What computes the columns of all ranks; only needed for chunks that are kept.
  Result<std::string> engines() {
    if (parts_.options.chunking.store == nullptr) return backend_.arithmetic();
    const std::uint64_t mine = std::hash<std::string>{}(backend_.arithmetic());
    std::vector<std::uint64_t> all(parts_.collective.size());
    TRY(parts_.collective.all_gather({"comparing engines", parts_.ranks.timeout},
                                     std::as_bytes(std::span(&mine, 1)),
                                     std::as_writable_bytes(std::span(all))));
    return fmt::format("{} {:016x}", backend_.arithmetic(), fmt::join(all, " "));
  }

  /// Whether rank 0 has the chunk already; an interruption where a rank was told to stop.
  Result<bool> skips(bool taken) {
    const Chunking& chunking = parts_.options.chunking;
    if (chunking.store == nullptr) return false;
    constexpr auto kTaken = std::byte{1}, kStopping = std::byte{2};
    const std::byte mine = (taken ? kTaken : std::byte{}) | (chunking.stopping() ? kStopping : std::byte{});
    std::vector<std::byte> all(parts_.collective.size());
    TRY(parts_.collective.all_gather({"the next chunk", parts_.ranks.timeout}, {&mine, 1}, all));
    if ((all[0] & kTaken) != std::byte{}) return true;
    for (const std::byte of : all) {
      if ((of & kStopping) != std::byte{}) return std::unexpected(interrupted());
    }
    return false;
  }

  const Parts& parts_;
  Backend& backend_;
  std::uint32_t threads_;
};

Result<Table> measure_own_columns(const Parts& parts, const Progress& progress, const RowSink& sink) {
  const std::uint32_t threads = threads_of_rank(parts.options.threads, 1);
  auto backend = TRY(
      Backend::open(parts.options.device, threads, parts.options.top_k, kCudaLibrary, parts.options.metrics));
  return Columns(parts, backend, threads).run(progress, sink);
}

Result<Table> measure_part(const Parts& parts, const Progress& progress, const RowSink& sink) {
  TRY(check_agreement(parts));
  TRY(check_comparable(parts.train, parts.inf));
  if (parts.options.top_rows > kMaxWorstRows)
    return schema::fail(ErrorCode::invalid_argument, "at most 10,000 worst rows can be kept");
  if (is_partial(parts.train.mode())) {
    return schema::fail(ErrorCode::unsupported,
                        fmt::format("captures in {} mode are small and are measured by one rank: run without "
                                    "--ranks and mpirun",
                                    to_string(parts.train.mode())));
  }
  if (parts.ranks.shard == Shard::vocab) return measure_own_columns(parts, progress, sink);
  if (sink) {
    return schema::fail(
        ErrorCode::unsupported,
        "when rows are split, the figures of single rows stay with the rank that measured them; "
        "use one rank or --shard vocab");
  }
  return measure_own_rows(parts, progress);
}

/// Index of "cuda:N".
std::int32_t index_of(const std::string& device) {
  return device.starts_with("cuda:") ? std::atoi(device.c_str() + 5) : 0;
}

}  // namespace

Result<Table> measure_rank(Collective& collective, const Capture& train, const Capture& inf,
                           const Corpus* corpus, const MeasureOptions& options, const RankOptions& ranks,
                           const Progress& progress, const RowSink& sink) {
  const auto left = [&collective](const schema::Error& cause) {
    const schema::Error error = at_rank(cause, collective.rank(), collective.size());
    collective.leave(error);
    return std::unexpected(error);
  };
  std::unique_ptr<Collective> devices;
  if (ranks.nccl) {
    auto opened = open_nccl(collective, index_of(options.device), ranks.timeout);
    if (!opened) return left(opened.error());
    devices = std::move(*opened);
  }
  Collective& used = devices ? *devices : collective;
  auto table = measure_part({used, train, inf, corpus, options, ranks}, progress, sink);
  // All ranks are interrupted together, and go on to end together.
  if (table || is_interruption(table.error())) return table;
  if (!devices) return left(table.error());
  devices->leave(table.error());
  // NCCL does not report which rank it waited for: the rank that does not reach this barrier is the one.
  const auto all = table.error().code == ErrorCode::deadline_exceeded
                       ? collective.barrier({"finding the missing rank after NCCL's deadline", ranks.timeout})
                       : Result<void>{};
  return left(all ? table.error() : all.error());
}

std::uint32_t threads_of_rank(std::uint32_t threads, std::uint32_t ranks) {
  const std::uint32_t all = threads == 0 ? std::thread::hardware_concurrency() : threads;
  return std::max(1U, all / ranks);
}

ThreadRanksTable measure_in_threads(const Capture& train, const Capture& inf, const Corpus* corpus,
                                    const MeasureOptions& options, const RankOptions& ranks,
                                    const std::vector<std::string>& devices, const Progress& progress,
                                    const RowSink& sink) {
  // Owned by the work, because an abandoned thread may outlive this call.
  struct State {
    MeasureOptions options;
    RankOptions ranks;
    std::vector<std::string> devices;
    Progress progress;
    RowSink sink;
    Table table;
  };
  const auto state = std::make_shared<State>(State{options, ranks, devices, progress, sink, {}});
  const auto count = static_cast<std::uint32_t>(devices.size());
  state->options.threads = threads_of_rank(options.threads, count);
  const auto work = [state, &train, &inf, corpus](Collective& collective) -> Result<void> {
    MeasureOptions own = state->options;
    own.device = state->devices[collective.rank()];
    auto table =
        measure_rank(collective, train, inf, corpus, own, state->ranks, state->progress, state->sink);
    if (!table) return std::unexpected(table.error());
    if (*table) state->table = std::move(*table);
    return {};
  };
  const ThreadRanksResult run = run_in_threads(count, work);
  if (!run.result) return {std::unexpected(run.result.error()), run.abandoned};
  return {std::move(*state->table), 0};
}

}  // namespace driftgate::gpu
