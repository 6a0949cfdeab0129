#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace driftgate::gpu::cpu {

/// A pool of threads that wait on an atomic between two runs, so that starting a run is cheap enough for work
/// as short as a part of a row.
class ThreadPool {
 public:
  /// A pool of `threads` threads, at least 1; the thread that calls `run` is one of them.
  explicit ThreadPool(std::uint32_t threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] std::size_t size() const { return others_.size() + 1; }
  /// Runs work(0), …, work(size() − 1), each in a thread of its own, and waits for all of them. `work` must
  /// not throw.
  void run(const std::function<void(std::size_t)>& work);

 private:
  void serve(std::size_t thread);

  const std::function<void(std::size_t)>* work_ = nullptr;  ///< null: the threads end
  std::atomic<std::uint32_t> turn_ = 0, busy_ = 0;
  std::vector<std::jthread> others_;  ///< last member, because the threads use those above
};

}  // namespace driftgate::gpu::cpu
