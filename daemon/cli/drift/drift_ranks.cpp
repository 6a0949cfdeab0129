#include "daemon/cli/drift/drift_ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "daemon/cli/exit_codes.hpp"
#include "gpu/compare_bits.hpp"
#include "gpu/ranks/collective_loader.hpp"
#include "gpu/ranks/rank_devices.hpp"

namespace driftgate::cli {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::chrono::milliseconds kTick{1'000};

/// What rank 0 sends while the others wait for its report.
struct Progress {
  std::int32_t done = 0, exit_code = 0;
};

Result<void> say(gpu::Collective& job, Progress& progress, std::chrono::milliseconds timeout) {
  return job.broadcast({"the exit status", timeout}, std::as_writable_bytes(std::span(&progress, 1)));
}

std::unexpected<schema::Error> usage(const std::string& text) {
  return schema::fail(ErrorCode::invalid_argument, text);
}

Result<gpu::RankOptions> options_of(const DriftArgs& args) {
  constexpr double kLongestSeconds = 86'400;
  if (args.shard != "rows" && args.shard != "vocab")
    return usage("--shard is rows or vocab, not '" + args.shard + "'");
  if (!(args.timeout_s >= 0.001 && args.timeout_s <= kLongestSeconds))
    return usage("--timeout is a number of seconds up to 86400");
  const std::string& exchange = args.exchange;
  if (exchange != "auto" && exchange != "threads" && exchange != "mpi" && exchange != "nccl")
    return usage("--exchange is auto, threads, mpi or nccl, not '" + exchange + "'");
  if (exchange == "nccl" && !args.device.starts_with("cuda"))
    return usage("--exchange nccl is between CUDA devices: name them with --devices");
  gpu::RankOptions out;
  out.shard = args.shard == "vocab" ? gpu::Shard::vocab : gpu::Shard::rows;
  out.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(args.timeout_s * 1'000));
  out.nccl = exchange == "nccl";
  return out;
}

/// Adds the bitwise comparison of the whole captures; done by the process that has the table.
Result<std::optional<gpu::MeasurementTable>> with_bits(const gpu::Capture& train, const gpu::Capture& inf,
                                                       const std::vector<std::string>& exact,
                                                       Result<std::optional<gpu::MeasurementTable>> table) {
  if (!table || !*table) return table;
  TRY(gpu::compare_bits(train, inf, exact, **table));
  return table;
}

}  // namespace

/// While rank 0 makes its report, tells the others that it is alive.
class DriftRanks::Ticker {
 public:
  Ticker(gpu::Collective& job, std::chrono::milliseconds timeout)
      : job_(job), timeout_(timeout), thread_([this] { run(); }) {}
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::min(kTick, timeout_ / 4), [this] { return stop_; })) {
      lock.unlock();
      Progress progress;
      const bool heard = say(job_, progress, timeout_).has_value();
      lock.lock();
      if (!heard) return;  // `agreed` will report why
    }
  }
  gpu::Collective& job_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

DriftRanks::DriftRanks() = default;
DriftRanks::DriftRanks(DriftRanks&&) noexcept = default;
DriftRanks::~DriftRanks() = default;

Result<DriftRanks> DriftRanks::start(const DriftArgs& args) {
  DriftRanks out;
  auto options = TRY(options_of(args));
  out.options_ = options;
  out.asked_ = args.device;
  const bool launched = gpu::started_by_mpi() && args.exchange != "threads";
  if (args.exchange != "mpi" && !launched) {
    auto devices = TRY(gpu::devices_of_ranks(args.device, args.ranks));
    out.devices_ = std::move(devices);
    return out;
  }
  auto job = TRY(gpu::open_mpi(out.options_.timeout));
  out.job_ = std::move(job);
  // From here on the other processes must be told of an error: `measure` returns it.
  auto device = gpu::device_of_process(args.device, gpu::local_rank());
  if (device) {
    out.devices_ = {*device};
  } else {
    out.trouble_ = device.error();
  }
  if (args.ranks != 0 && args.ranks != out.job_->size()) {
    out.trouble_ = usage(fmt::format("--ranks {} was given, but the MPI job has {} processes: leave --ranks "
                                     "out, or start as many processes",
                                     args.ranks, out.job_->size()))
                       .error();
  }
  return out;
}

std::string DriftRanks::describe() const {
  const std::size_t ranks = job_ ? job_->size() : devices_.size();
  if (ranks == 1) return asked_;
  return fmt::format("{}, {} ranks over {}, {}", asked_, ranks,
                     options_.nccl ? "nccl"
                     : job_        ? job_->name()
                                   : "threads",
                     options_.shard == gpu::Shard::rows ? "rows" : "vocab");
}

Result<std::optional<gpu::MeasurementTable>> DriftRanks::measure(
    const gpu::Capture& train, const gpu::Capture& inf, const gpu::Corpus* corpus,
    gpu::MeasureOptions options, const std::vector<std::string>& exact, const gpu::Progress& progress,
    const gpu::RowSink& sink) {
  if (trouble_) return std::unexpected(*trouble_);
  options.device = devices_.front();
  if (job_ && job_->size() > 1) {
    if (options.threads == 0) options.threads = gpu::threads_of_rank(0, gpu::local_size());
    auto table = gpu::measure_rank(*job_, train, inf, corpus, options, options_, progress, sink);
    if (table && *table) ticker_ = std::make_unique<Ticker>(*job_, options_.timeout);
    return with_bits(train, inf, exact, std::move(table));
  }
  if (devices_.size() == 1) {
    auto table = TRY(gpu::measure_with_bits(train, inf, corpus, options, exact, progress, sink));
    return std::optional(std::move(table));
  }
  auto ranks = gpu::measure_in_threads(train, inf, corpus, options, options_, devices_, progress, sink);
  abandoned_ = ranks.abandoned;
  if (!ranks.table) return std::unexpected(ranks.table.error());
  return with_bits(train, inf, exact, std::optional(std::move(*ranks.table)));
}

void DriftRanks::fail(const schema::Error& error) {
  failed_ = true;
  const auto blamed = gpu::rank_of(error);
  // In a job, rank 0 speaks for all; so does whom it concerns, and everyone when that is rank 0.
  if (!job_ || job_->rank() == 0 || !blamed || *blamed == job_->rank() || *blamed == 0) report(error);
  if (job_) job_->leave(error);
}

int DriftRanks::agreed(int exit_code) {
  const bool root = job_->rank() == 0;
  Progress progress{root ? 1 : 0, exit_code};
  do {
    if (auto ok = say(*job_, progress, options_.timeout); !ok) {
      fail(ok.error());
      return kExitError;
    }
  } while (progress.done == 0);
  return progress.exit_code;
}

int DriftRanks::end(int exit_code) {
  ticker_.reset();
  std::fflush(nullptr);
  // Threads that stall would use what this process is about to destroy.
  if (abandoned_ > 0) ::_exit(exit_code);
  if (!job_) return exit_code;
  if (!failed_) exit_code = agreed(exit_code);
  job_->close(exit_code);
  return exit_code;
}

}  // namespace driftgate::cli
