#include "gpu/ranks/rank_session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "gpu/chunks/chunking.hpp"
#include "gpu/columns/column_check.hpp"
#include "gpu/compare_bits.hpp"
#include "gpu/ranks/collective_loader.hpp"
#include "gpu/ranks/rank_devices.hpp"
#include "gpu/support/support_check.hpp"

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

constexpr std::chrono::milliseconds kTick{1'000};
constexpr std::int32_t kAlive = 0, kNext = 1, kEnd = 2;  ///< what rank 0 tells those that wait for it

struct Word {
  std::int32_t state = kAlive, exit_code = 0;
};

Result<void> say(Collective& job, Word& word, std::chrono::milliseconds timeout) {
  return job.broadcast({"the exit status", timeout}, std::as_writable_bytes(std::span(&word, 1)));
}

/// Adds what is compared of the whole captures; done by the process that has the table.
Result<std::optional<MeasurementTable>> with_checks(const Capture& train, const Capture& inf,
                                                    const std::vector<std::string>& exact,
                                                    std::uint32_t threads,
                                                    Result<std::optional<MeasurementTable>> table) {
  if (!table || !*table) return table;
  TRY(compare_bits(train, inf, exact, **table));
  check_columns(train, inf, **table);
  check_support(train, inf, threads, **table);
  return table;
}

}  // namespace

/// While rank 0 works alone, tells the others that it is alive.
class RankSession::Ticker {
 public:
  Ticker(Collective& job, std::chrono::milliseconds timeout)
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
      Word word;
      const bool heard = say(job_, word, timeout_).has_value();
      lock.lock();
      if (!heard) return;  // the next call will report why
    }
  }
  Collective& job_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

RankSession::RankSession() = default;
RankSession::RankSession(RankSession&&) noexcept = default;
RankSession::~RankSession() = default;

Result<RankSession> RankSession::start(const SessionRequest& request) {
  RankSession out;
  out.asked_ = request.device;
  out.shard_ = request.shard;
  out.options_.shard = request.shard.value_or(Shard::rows);
  out.options_.timeout = request.timeout;
  out.options_.nccl = request.exchange == "nccl";
  const bool launched = started_by_mpi() && request.exchange != "threads";
  if (request.exchange != "mpi" && !launched) {
    auto devices = TRY(devices_of_ranks(request.device, request.ranks));
    out.devices_ = std::move(devices);
    return out;
  }
  auto job = TRY(open_mpi(request.timeout));
  out.job_ = std::move(job);
  // From here on the other processes must be told of an error: `measure` returns it.
  auto device = device_of_process(request.device, has_own_devices() ? 0 : local_rank());
  if (device) {
    out.devices_ = {*device};
  } else {
    out.trouble_ = device.error();
  }
  if (request.ranks != 0 && request.ranks != out.job_->size()) {
    out.trouble_ = {ErrorCode::invalid_argument,
                    fmt::format("{} ranks were requested, but the MPI job has {} processes: {}",
                                request.ranks, out.job_->size(), request.other_number),
                    {},
                    nullptr};
  }
  return out;
}

std::uint32_t RankSession::size() const {
  return job_ ? job_->size() : static_cast<std::uint32_t>(devices_.size());
}

std::string RankSession::describe() const {
  if (size() == 1) return asked_;
  return fmt::format("{}, {} ranks over {}, {}", asked_, size(),
                     options_.nccl ? "nccl"
                     : job_        ? job_->name()
                                   : "threads",
                     to_string(options_.shard));
}

/// Rank 0 says that it goes on or ends; the others wait until it says so. Returns its exit code.
Result<int> RankSession::told(std::int32_t state, int exit_code) {
  ticker_.reset();
  Word word{root() ? state : kAlive, exit_code};
  do {
    TRY(say(*job_, word, options_.timeout));
  } while (word.state == kAlive);
  if (word.state == state) return word.exit_code;
  if (word.state == kEnd) {  // it was told to stop while it worked alone
    ended_ = word.exit_code;
    return std::unexpected(interrupted());
  }
  return schema::fail(ErrorCode::internal, "the ranks do not make the same calls");
}

/// From here on rank 0 works alone.
void RankSession::set_apart() {
  apart_ = job_ && job_->size() > 1;
  if (apart_ && root()) ticker_ = std::make_unique<Ticker>(*job_, options_.timeout);
}

Result<void> RankSession::resume() {
  if (!std::exchange(apart_, false)) return {};
  TRY(told(kNext, 0));
  return {};
}

/// Every rank comes to the same choice: captures are the same, and memory is that of the rank with least.
Result<void> RankSession::choose(const Capture& train, const Capture& inf, bool wants_rows) {
  if (shard_) {
    choice_ = ShardChoice{*shard_, "as asked"};
    return {};
  }
  ShardFacts facts = shard_facts(train, inf, size(), wants_rows);
  facts.memory_bytes = memory_of_rank(devices_.front(), job_ ? local_size() : size());
  if (job_) {
    const std::uint64_t mine[2] = {facts.memory_bytes.value_or(UINT64_MAX), wants_rows ? 1U : 0U};
    std::vector<std::uint64_t> all(2 * std::size_t{job_->size()});
    TRY(job_->all_gather({"comparing captures and options", options_.timeout}, std::as_bytes(std::span(mine)),
                         std::as_writable_bytes(std::span(all))));
    facts.wants_rows = all[1] != 0;  // rank 0 alone writes rows
    std::uint64_t least = UINT64_MAX;
    for (std::size_t at = 0; at < all.size(); at += 2) least = std::min(least, all[at]);
    facts.memory_bytes = least == UINT64_MAX ? std::nullopt : std::optional(least);
  }
  choice_ = choose_shard(facts);
  options_.shard = choice_->shard;
  return {};
}

Result<std::optional<MeasurementTable>> RankSession::measure_here(
    const Capture& train, const Capture& inf, const Corpus* corpus, const MeasureOptions& options,
    const std::vector<std::string>& exact, const Progress& progress, const RowSink& sink) {
  choice_.reset();
  auto table = TRY(measure_with_bits(train, inf, corpus, options, exact, progress, sink));
  return std::optional(std::move(table));
}

Result<std::optional<MeasurementTable>> RankSession::measure(const Capture& train, const Capture& inf,
                                                             const Corpus* corpus, MeasureOptions options,
                                                             const std::vector<std::string>& exact,
                                                             const Progress& progress, const RowSink& sink,
                                                             bool small_alone) {
  if (trouble_) return std::unexpected(*trouble_);
  options.device = devices_.front();
  if (size() == 1 && !job_) return measure_here(train, inf, corpus, options, exact, progress, sink);
  if (job_) TRY(resume());
  Result<std::optional<MeasurementTable>> table = std::optional<MeasurementTable>();
  if (job_ && job_->size() == 1) {
    table = measure_here(train, inf, corpus, options, exact, progress, sink);
  } else if (small_alone && is_partial(train.mode())) {
    set_apart();
    if (root()) table = measure_here(train, inf, corpus, options, exact, progress, sink);
    return table;
  } else if (job_) {
    if (options.threads == 0) options.threads = threads_of_rank(0, local_size());
    TRY(choose(train, inf, static_cast<bool>(sink)));
    table = measure_rank(*job_, train, inf, corpus, options, options_, progress, sink);
  } else {
    TRY(choose(train, inf, static_cast<bool>(sink)));
    auto ranks = measure_in_threads(train, inf, corpus, options, options_, devices_, progress, sink);
    abandoned_ = ranks.abandoned;
    if (!ranks.table) return std::unexpected(ranks.table.error());
    table = std::optional(std::move(*ranks.table));
  }
  if (!table) return table;
  set_apart();
  return with_checks(train, inf, exact, options.threads, std::move(table));
}

bool RankSession::reports(const schema::Error& error) const {
  const auto blamed = rank_of(error);
  return !job_ || job_->rank() == 0 || !blamed || *blamed == job_->rank() || *blamed == 0;
}

void RankSession::fail(const schema::Error& error) {
  failed_ = true;
  if (job_) job_->leave(error);
}

int RankSession::end(int exit_code, int lost, const std::function<void(const schema::Error&)>& report) {
  std::fflush(nullptr);
  if (ended_) {
    exit_code = *ended_;
  } else if (job_ && !failed_) {
    const auto all = told(kEnd, exit_code);
    if (all) {
      exit_code = *all;
    } else {
      if (reports(all.error())) report(all.error());
      fail(all.error());
      exit_code = lost;
    }
  }
  ticker_.reset();
  // Threads that stall would use what this process is about to destroy.
  if (abandoned_ > 0) {
    std::fflush(nullptr);
    ::_exit(exit_code);
  }
  if (job_) job_->close(exit_code);
  return exit_code;
}

}  // namespace driftgate::gpu
