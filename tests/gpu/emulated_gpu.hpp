#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "gpu/cuda/fast_row.hpp"
#include "gpu/cuda/wide_row.hpp"

/// A cluster of thread blocks on the host: each thread is a fiber with its own stack, which runs until it
/// meets a barrier or a warp exchange. Between barriers fibers run in random order and now and then one is
/// left behind, so that code which lacks a barrier gives other results from run to run.
namespace driftgate::gpu::test {

/// Where fibers wait for each other.
struct Barrier {
  unsigned expected = 0, arrived = 0;
  std::uint64_t generation = 0;
};

struct EmulatedBlock {
  Barrier barrier;
  cuda::FastShared fast;
  cuda::WideShared wide;
  std::vector<cuda::Vector> cache_train, cache_inf;
  std::vector<Barrier> warps;
  std::vector<std::uint64_t> slots;  ///< two for each thread: one exchange never overtakes the next
};

class EmulatedCluster;

/// A thread's view of its block and cluster; the same members as the device's context in kernels.cu.
class EmulatedThread {
 public:
  EmulatedThread(EmulatedCluster& cluster, unsigned block, unsigned thread)
      : cluster_(cluster), block_(block), thread_(thread) {}
  [[nodiscard]] unsigned thread() const { return thread_; }
  [[nodiscard]] unsigned threads() const;
  [[nodiscard]] unsigned rank() const { return block_; }
  [[nodiscard]] unsigned blocks() const;
  cuda::FastShared& shared() { return block().fast; }
  cuda::WideShared& wide() { return block().wide; }
  const cuda::FastShared& peer(unsigned rank);
  cuda::Vector* cache_train() { return block().cache_train.data(); }
  cuda::Vector* cache_inf() { return block().cache_inf.data(); }
  static cuda::Vector stream(const cuda::Vector* from) { return *from; }
  static std::uint32_t next(std::uint32_t* counter) { return (*counter)++; }
  static void add(std::uint32_t* counter, std::uint32_t value) { *counter += value; }
  void sync();
  void sync_cluster();
  template <typename T>
  T shuffle_xor(T value, unsigned mask) {
    static_assert(sizeof(T) <= 8);
    parity_ ^= 1U;
    std::memcpy(&slot(thread_), &value, sizeof(T));
    sync_warp();
    T out;
    std::memcpy(&out, &slot(thread_ ^ mask), sizeof(T));
    return out;
  }

 private:
  EmulatedBlock& block();
  std::uint64_t& slot(unsigned thread) { return block().slots[2 * thread + parity_]; }
  void sync_warp();
  EmulatedCluster& cluster_;
  unsigned block_, thread_, parity_ = 0;
};

class EmulatedCluster {
 public:
  EmulatedCluster(unsigned blocks, unsigned threads, std::uint32_t cache, std::uint64_t seed)
      : blocks_(blocks), threads_(threads), random_(seed), all_(blocks) {
    cluster_.expected = blocks * threads;
    for (EmulatedBlock& block : all_) {
      block.barrier.expected = threads;
      block.cache_train.resize(cache);
      block.cache_inf.resize(cache);
      block.warps.resize(threads / 32);
      for (Barrier& warp : block.warps) warp.expected = 32;
      block.slots.resize(2 * std::size_t{threads});
      // What no one wrote must not look like a sum.
      std::memset(static_cast<void*>(&block.fast), 0xff, sizeof(block.fast));
      std::memset(static_cast<void*>(&block.wide), 0xff, sizeof(block.wide));
    }
  }

  /// Runs `body` in every thread of the cluster to its end.
  void run(const std::function<void(EmulatedThread&)>& body) {
    body_ = &body;
    fibers_.clear();
    for (unsigned block = 0; block < blocks_; ++block) {
      for (unsigned thread = 0; thread < threads_; ++thread) start(block, thread);
    }
    std::vector<Fiber*> order;
    for (auto& fiber : fibers_) order.push_back(fiber.get());
    const Fiber* slow = nullptr;
    for (std::uint64_t pass = 0; !order.empty(); ++pass) {
      std::shuffle(order.begin(), order.end(), random_);
      // The first of a warp more often: what one thread does for all is its work.
      if (pass % kSlowPasses == 0) slow = fibers_[random_() % (fibers_.size() / 32) * 32].get();
      if (pass % (2 * kSlowPasses) == 0) slow = order.front();
      bool progress = false;
      for (Fiber* fiber : order) {
        if (fiber == slow && pass % kSlowPasses != 0) {
          progress = true;  // later
          continue;
        }
        if (fiber->waits != nullptr && fiber->waits->generation == fiber->generation) continue;
        current_ = fiber;
        progress = true;
        swapcontext(&scheduler_, &fiber->context);
      }
      if (!progress) throw std::logic_error("threads wait at a barrier that others never reach");
      std::erase_if(order, [](const Fiber* fiber) { return fiber->done; });
    }
  }

  void wait(Barrier& barrier) {
    if (++barrier.arrived == barrier.expected) {
      barrier.arrived = 0;
      ++barrier.generation;
      return;
    }
    Fiber* fiber = current_;
    fiber->waits = &barrier;
    fiber->generation = barrier.generation;
    swapcontext(&fiber->context, &scheduler_);
    fiber->waits = nullptr;
  }

 private:
  friend class EmulatedThread;
  static constexpr std::uint64_t kSlowPasses = 16;  ///< that one thread at a time is left behind
  static constexpr std::size_t kStackBytes = std::size_t{96} << 10;
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<unsigned char[]> stack;
    std::unique_ptr<EmulatedThread> thread;
    EmulatedCluster* cluster = nullptr;
    const Barrier* waits = nullptr;
    std::uint64_t generation = 0;
    bool done = false;
  };

  void start(unsigned block, unsigned thread) {
    auto fiber = std::make_unique<Fiber>();
    fiber->stack = std::make_unique_for_overwrite<unsigned char[]>(kStackBytes);
    fiber->thread = std::make_unique<EmulatedThread>(*this, block, thread);
    fiber->cluster = this;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = &scheduler_;
    const auto address = reinterpret_cast<std::uintptr_t>(fiber.get());
    makecontext(&fiber->context, reinterpret_cast<void (*)()>(&enter), 2,
                static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
    fibers_.push_back(std::move(fiber));
  }
  static void enter(unsigned high, unsigned low) {
    auto* fiber = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
    (*fiber->cluster->body_)(*fiber->thread);
    fiber->done = true;
  }

  unsigned blocks_, threads_;
  std::mt19937_64 random_;
  std::vector<EmulatedBlock> all_;
  Barrier cluster_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_{};
  const std::function<void(EmulatedThread&)>* body_ = nullptr;
};

inline unsigned EmulatedThread::threads() const {
  return cluster_.threads_;
}
inline unsigned EmulatedThread::blocks() const {
  return cluster_.blocks_;
}
inline EmulatedBlock& EmulatedThread::block() {
  return cluster_.all_[block_];
}
inline const cuda::FastShared& EmulatedThread::peer(unsigned rank) {
  return cluster_.all_[rank].fast;
}
inline void EmulatedThread::sync() {
  cluster_.wait(block().barrier);
}
inline void EmulatedThread::sync_cluster() {
  cluster_.wait(cluster_.cluster_);
}
inline void EmulatedThread::sync_warp() {
  cluster_.wait(block().warps[thread_ / 32]);
}

}  // namespace driftgate::gpu::test
