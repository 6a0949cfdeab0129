#include "gpu/ranks/thread_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace driftgate::gpu {

using schema::ErrorCode;
using schema::Result;

namespace {

/// The number of operations by which the fastest rank may be ahead of the slowest.
constexpr std::size_t kMaxOperations = 64;
constexpr int kLooks = 200;  ///< before a thread sleeps

enum class Kind : std::uint8_t { all_gather, gather, broadcast };
constexpr const char* kNames[] = {"all_gather", "gather", "broadcast"};

/// The state that the ranks of one group share.
class Group {
 public:
  explicit Group(std::uint32_t size) : next_(size), left_(size) {}
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(next_.size()); }

  Result<void> exchange(Kind kind, const Wait& wait, std::uint32_t rank, std::span<const std::byte> mine,
                        std::span<std::byte> out) {
    const auto number = begin(kind, wait, rank, mine);
    return number ? finish(*number, wait, rank, out) : std::unexpected(number.error());
  }

  Result<std::uint64_t> begin(Kind kind, const Wait& wait, std::uint32_t rank,
                              std::span<const std::byte> mine) {
    const auto deadline = std::chrono::steady_clock::now() + wait.timeout;
    std::unique_lock lock(mutex_);
    const std::uint64_t number = next_[rank]++;
    const auto room = [&] { return operations_.contains(number) || operations_.size() < kMaxOperations; };
    if (!changed_.wait_until(lock, deadline, [&] { return room() || anyone_left(); }) || !room())
      return std::unexpected(failure(kind, wait, lagging(), rank));
    Operation& operation = operations_[number];
    if (operation.parts.empty()) operation = {kind, std::vector<std::optional<Bytes>>(size()), 0};
    if (operation.kind != kind || !same_size(operation, mine.size())) {
      return std::unexpected(rank_error(ErrorCode::internal, kNames[static_cast<int>(kind)], wait,
                                        "the ranks do not make the same calls", rank, size()));
    }
    operation.parts[rank] = Bytes(mine.begin(), mine.end());
    changed();
    return number;
  }

  Result<void> finish(std::uint64_t number, const Wait& wait, std::uint32_t rank, std::span<std::byte> out) {
    const auto deadline = std::chrono::steady_clock::now() + wait.timeout;
    std::unique_lock lock(mutex_);
    Operation& operation = operations_.at(number);
    const auto missing = [&] { return first_missing(operation, rank); };
    const auto over = [&] { return !missing() || left_[*missing()] || left_[rank]; };
    watch(lock, over);
    if (!changed_.wait_until(lock, deadline, over) || missing())
      return std::unexpected(failure(operation.kind, wait, *missing(), rank));
    copy(operation, rank, out);
    if (++operation.taken == size()) {
      operations_.erase(number);
      changed();
    }
    return {};
  }

  void leave(std::uint32_t rank, const schema::Error& error) {
    const std::lock_guard lock(mutex_);
    if (!left_[rank]) left_[rank] = at_rank(error, rank, size());
    changed();
  }

 private:
  using Bytes = std::vector<std::byte>;
  void changed() {
    changes_.fetch_add(1, std::memory_order_release);
    changed_.notify_all();
  }
  /// Looks for a short while whether `over` becomes true, without sleeping: the others are usually
  /// microseconds behind, and to be woken takes about 50.
  template <typename Over>
  void watch(std::unique_lock<std::mutex>& lock, Over over) {
    for (int looks = 0; looks < kLooks && !over();) {
      const std::uint64_t seen = changes_.load(std::memory_order_relaxed);
      lock.unlock();
      do {
        std::this_thread::yield();  // where there are more ranks than processors
      } while (++looks < kLooks && changes_.load(std::memory_order_acquire) == seen);
      lock.lock();
    }
  }
  struct Operation {
    Kind kind{};
    std::vector<std::optional<Bytes>> parts;
    std::uint32_t taken = 0;
  };

  [[nodiscard]] bool same_size(const Operation& operation, std::size_t bytes) const {
    // In a broadcast only rank 0 has bytes.
    return operation.kind == Kind::broadcast || std::ranges::all_of(operation.parts, [&](const auto& part) {
             return !part || part->size() == bytes;
           });
  }
  [[nodiscard]] bool anyone_left() const {
    return std::ranges::any_of(left_, [](const auto& error) { return error.has_value(); });
  }
  /// The rank that is furthest behind.
  [[nodiscard]] std::uint32_t lagging() const {
    return static_cast<std::uint32_t>(std::ranges::min_element(next_) - next_.begin());
  }
  /// A rank whose part `rank` is waiting for: one that has left, else the first one.
  [[nodiscard]] std::optional<std::uint32_t> first_missing(const Operation& operation,
                                                           std::uint32_t rank) const {
    std::optional<std::uint32_t> out;
    for (std::uint32_t other = 0; other < size(); ++other) {
      const bool needed =
          operation.kind == Kind::all_gather || (operation.kind == Kind::gather ? rank == 0 : other == 0);
      if (!needed || operation.parts[other]) continue;
      if (left_[other]) return other;
      if (!out) out = other;
    }
    return out;
  }
  [[nodiscard]] schema::Error failure(Kind kind, const Wait& wait, std::uint32_t missing,
                                      std::uint32_t rank) const {
    if (left_[rank]) return *left_[rank];
    if (left_[missing]) return *left_[missing];
    return rank_error(ErrorCode::deadline_exceeded, kNames[static_cast<int>(kind)], wait,
                      fmt::format("the rank did not respond within {:.3g} s",
                                  std::chrono::duration<double>(wait.timeout).count()),
                      missing, size());
  }
  void copy(const Operation& operation, std::uint32_t rank, std::span<std::byte> out) const {
    if (operation.kind == Kind::gather && rank != 0) return;
    if (operation.kind == Kind::broadcast) {
      if (rank != 0) std::ranges::copy(*operation.parts[0], out.begin());
      return;
    }
    auto at = out.begin();
    for (const auto& part : operation.parts) at = std::ranges::copy(*part, at).out;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<std::uint64_t> changes_ = 0;
  std::map<std::uint64_t, Operation> operations_;
  std::vector<std::uint64_t> next_;  ///< number of each rank's next operation
  std::vector<std::optional<schema::Error>> left_;
};

class ThreadCollective final : public Collective {
 public:
  ThreadCollective(std::shared_ptr<Group> group, std::uint32_t rank)
      : group_(std::move(group)), rank_(rank) {}
  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t size() const override { return group_->size(); }
  [[nodiscard]] std::string name() const override { return "threads"; }
  Result<void> all_gather(const Wait& wait, std::span<const std::byte> mine,
                          std::span<std::byte> all) override {
    return group_->exchange(Kind::all_gather, wait, rank_, mine, all);
  }
  Result<void> gather(const Wait& wait, std::span<const std::byte> mine, std::span<std::byte> all) override {
    return group_->exchange(Kind::gather, wait, rank_, mine, all);
  }
  Result<void> broadcast(const Wait& wait, std::span<std::byte> bytes) override {
    return group_->exchange(Kind::broadcast, wait, rank_, bytes, bytes);
  }
  [[nodiscard]] bool in_steps() const override { return true; }
  Result<std::uint64_t> begin(Gathering gathering, const Wait& wait,
                              std::span<const std::byte> mine) override {
    const Kind kind = gathering == Gathering::at_all ? Kind::all_gather : Kind::gather;
    return group_->begin(kind, wait, rank_, mine);
  }
  Result<void> finish(std::uint64_t number, const Wait& wait, std::span<std::byte> all) override {
    return group_->finish(number, wait, rank_, all);
  }
  void leave(const schema::Error& error) override { group_->leave(rank_, error); }

 private:
  std::shared_ptr<Group> group_;
  std::uint32_t rank_;
};

/// The state that the threads of run_in_threads share with their caller; it outlives abandoned threads.
struct Run {
  std::function<Result<void>(Collective&)> work;
  std::vector<std::unique_ptr<Collective>> collectives;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint32_t ended = 0;
  std::optional<schema::Error> failure;
};

void run_rank(Run& run, std::uint32_t rank) {
  Collective& collective = *run.collectives[rank];
  Result<void> result;
  try {
    result = run.work(collective);
  } catch (const std::exception& error) {
    result = schema::fail(ErrorCode::internal, error.what());
  }
  if (!result) result = std::unexpected(at_rank(result.error(), rank, collective.size()));
  {
    const std::lock_guard lock(run.mutex);
    ++run.ended;
    if (!result && !run.failure) run.failure = result.error();
    run.changed.notify_all();
  }
  if (!result) collective.leave(result.error());
}

}  // namespace

std::vector<std::unique_ptr<Collective>> make_thread_collectives(std::uint32_t ranks) {
  const auto group = std::make_shared<Group>(ranks);
  std::vector<std::unique_ptr<Collective>> out;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    out.push_back(std::make_unique<ThreadCollective>(group, rank));
  return out;
}

ThreadRanksResult run_in_threads(std::uint32_t ranks, std::function<Result<void>(Collective&)> work,
                                 std::chrono::milliseconds grace) {
  const auto run = std::make_shared<Run>();
  run->work = std::move(work);
  run->collectives = make_thread_collectives(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([run, rank] { run_rank(*run, rank); });
  std::unique_lock lock(run->mutex);
  run->changed.wait(lock, [&] { return run->ended == ranks || run->failure; });
  const bool all = run->changed.wait_for(lock, grace, [&] { return run->ended == ranks; });
  ThreadRanksResult out{{}, ranks - run->ended};
  if (run->failure) out.result = std::unexpected(*run->failure);
  lock.unlock();
  for (std::thread& thread : threads) {
    if (all) {
      thread.join();
    } else {
      thread.detach();
    }
  }
  return out;
}

}  // namespace driftgate::gpu
