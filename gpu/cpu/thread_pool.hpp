#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace driftgate::gpu::cpu {

/// Threads that wait between their turns, so that a turn may be as short as a part of a row.
class ThreadPool {
 public:
  /// The caller of `run` is one of the `threads`, at least 1.
  explicit ThreadPool(std::uint32_t threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] std::size_t size() const { return others_.size() + 1; }
  /// Runs work(0), …, work(size() − 1), each in its own thread, and waits for all of them. `work` must not
  /// throw.
  void run(const std::function<void(std::size_t)>& work);

 private:
  void serve(std::size_t thread);

  const std::function<void(std::size_t)>* work_ = nullptr;  ///< null: end
  std::atomic<std::uint32_t> turn_ = 0, busy_ = 0;
  std::vector<std::jthread> others_;  ///< last: they use what stands above
};

}  // namespace driftgate::gpu::cpu
