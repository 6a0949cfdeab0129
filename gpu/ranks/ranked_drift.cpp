#include "gpu/ranks/ranked_drift.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

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

Result<Table> measure_own_rows(const Parts& parts, const Progress& progress) {
  const auto ranges = row_ranges(parts.train.sequence_ids(), parts.collective.size());
  const Range own = ranges[parts.collective.rank()];
  const std::uint64_t longest = std::ranges::max(ranges, {}, &Range::count).count();
  auto slices = TRY(all_slices(parts));
  MeasureOptions options = parts.options;
  options.slices = std::move(slices);

  std::string text;
  {
    RankProgress rank_progress(parts.collective, parts.ranks.timeout, own.count(), longest,
                               parts.train.rows(), progress);
    if (own.count() > 0) {
      const auto table = measure(
          parts.train.slice(own.begin, own.count()), parts.inf.slice(own.begin, own.count()), parts.corpus,
          options, [&rank_progress](std::uint64_t done, std::uint64_t) { rank_progress.reached(done); },
          [&rank_progress](std::uint64_t, std::span<const driftgate_row>) {
            return rank_progress.failure();
          });
      if (!table) {
        // Before joining the progress thread, which may be waiting for the others.
        parts.collective.leave(at_rank(table.error(), parts.collective.rank(), parts.collective.size()));
        return std::unexpected(table.error());
      }
      text = serialise(*table);
    }
    TRY(rank_progress.finish());
  }
  auto texts = TRY(parts.collective.gather_text({"the ranks' tables", parts.ranks.timeout}, text));
  return merged(texts, options.top_rows);
}

Result<Table> measure_own_columns(const Parts& parts, const Progress& progress, const RowSink& sink) {
  const MeasureOptions& options = parts.options;
  const std::uint32_t threads = threads_of_rank(options.threads, 1);
  auto backend = TRY(Backend::open(options.device, threads, options.top_k, kCudaLibrary, options.metrics));
  std::optional<Accumulator> accumulator;
  if (parts.collective.rank() == 0) {
    accumulator.emplace(empty_table(parts.train, parts.inf, options), parts.train.sequence_ids());
    if (parts.corpus != nullptr) {
      TRY(attach_corpus(*parts.corpus, accumulator->infos()));
    }
    accumulator->set_slices(options.slices ? *options.slices : described_slices(accumulator->infos()));
    accumulator->set_top_rows(options.top_rows);
  }
  const bool root = accumulator.has_value();
  const SplitJob job{parts.train,
                     parts.inf,
                     backend,
                     parts.collective,
                     root ? &*accumulator : nullptr,
                     options.top_k,
                     options.metrics,
                     parts.ranks.timeout,
                     threads};
  TRY(measure_split(job, root ? progress : Progress{}, sink));
  if (!root) return Table();
  Table table = accumulator->finish();
  if (options.device != "cpu") table->rows_on_cpu = 0;  // parts of rows are never left to the CPU
  return table;
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
  if (table) return table;
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
