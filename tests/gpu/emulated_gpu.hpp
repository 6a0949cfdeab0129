#pragma once

#include <setjmp.h>
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
#include "gpu/cuda/hidden_product.hpp"
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
  std::vector<std::uint64_t> slots;        ///< two for each thread: one exchange never overtakes the next
  std::vector<cuda::Vector> dynamic;       ///< what a kernel takes for its own
  std::vector<cuda::Fragments> fragments;  ///< two for each thread
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
  template <class T>
  T& shared() {
    if (block().dynamic.size() * sizeof(cuda::Vector) < sizeof(T)) throw std::logic_error("shared memory");
    return *reinterpret_cast<T*>(block().dynamic.data());
  }
  /// Sixteen bytes, which arrive when they are waited for and no sooner.
  void copy_async(unsigned char* to, const signed char* from) { copies_.back().push_back({to, from}); }
  void commit() { copies_.emplace_back(); }
  void wait(unsigned behind) {
    while (copies_.size() > behind + 1) {
      for (const auto& [to, from] : copies_.front()) std::memcpy(to, from, 16);
      copies_.erase(copies_.begin());
    }
  }
  /// Makes the thread's operands known to its warp.
  void publish(const cuda::Fragments& fragments) {
    published_ = &fragments;
    fragment_parity_ ^= 1U;
    fragments_of(thread_) = fragments;
    sync_warp();
  }
  /// mma.sync.m16n8k32 of signed bytes: `a` and `b` are registers of the fragments that were published.
  void mma(int (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
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
  cuda::Fragments& fragments_of(unsigned thread) { return block().fragments[2 * thread + fragment_parity_]; }
  void sync_warp();
  EmulatedCluster& cluster_;
  unsigned block_, thread_, parity_ = 0, fragment_parity_ = 0;
  const cuda::Fragments* published_ = nullptr;
  struct Copy {
    unsigned char* to;
    const signed char* from;
  };
  std::vector<std::vector<Copy>> copies_{1};
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
      block.fragments.resize(2 * std::size_t{threads});
      // Memory that was never written must not look like a sum.
      std::memset(static_cast<void*>(&block.fast), 0xff, sizeof(block.fast));
      std::memset(static_cast<void*>(&block.wide), 0xff, sizeof(block.wide));
    }
  }

  /// Gives each block so many bytes that a kernel takes for its own; no one wrote them.
  void give_shared(std::size_t bytes) {
    for (EmulatedBlock& block : all_) {
      block.dynamic.resize((bytes + 15) / 16);
      std::memset(static_cast<void*>(block.dynamic.data()), 0xff, block.dynamic.size() * 16);
    }
  }
  unsigned char* ring(std::size_t offset) {
    return reinterpret_cast<unsigned char*>(all_[0].dynamic.data()) + offset;
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
      // The first thread of a warp more often, because it does the work of one thread for all.
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
        resume(*fiber);
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
    pause(*fiber);
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
    bool done = false, started = false;
    jmp_buf place{};
  };

  // swapcontext makes two system calls; sanitizers know no other way.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  void resume(Fiber& fiber) {
    swapcontext(&scheduler_, &fiber.context);
  }
  void pause(Fiber& fiber) {
    swapcontext(&fiber.context, &scheduler_);
  }
  void leave() {}
#else
  void resume(Fiber& fiber) {
    if (_setjmp(scheduler_place_) != 0) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    swapcontext(&scheduler_, &fiber.context);
  }
  void pause(Fiber& fiber) {
    if (_setjmp(fiber.place) == 0) _longjmp(scheduler_place_, 1);
  }
  void leave() {
    _longjmp(scheduler_place_, 1);
  }
#endif

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
    fiber->cluster->leave();
  }

  unsigned blocks_, threads_;
  std::mt19937_64 random_;
  std::vector<EmulatedBlock> all_;
  Barrier cluster_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_{};
  jmp_buf scheduler_place_{};
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

/// As PTX lays fragments out over the lanes of a warp, with g = lane/4 and t = lane%4. A, 16 rows of 32
/// elements: register r holds row g + 8·(r%2), elements 16·(r/2) + 4·t to + 3. B, 32 elements of 8 columns:
/// register r holds column g, elements 16·r + 4·t to + 3. C: register r holds row g + 8·(r/2), column 2·t +
/// r%2.
inline void EmulatedThread::mma(int (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  const auto offset = [&](const std::uint32_t* word) {
    return static_cast<std::size_t>(word - reinterpret_cast<const std::uint32_t*>(published_));
  };
  const unsigned first = thread_ / 32 * 32, lane = thread_ % 32;
  const std::size_t at_a = offset(a), at_b = offset(b);
  const auto word = [&](unsigned of_lane, std::size_t at) {
    return reinterpret_cast<const std::uint32_t*>(&fragments_of(first + of_lane))[at];
  };
  signed char rows[2][32], columns[2][32];
  for (unsigned t = 0; t < 4; ++t) {
    for (unsigned high = 0; high < 2; ++high) {
      for (unsigned i = 0; i < 2; ++i) {
        const std::uint32_t left = word(lane / 4 * 4 + t, at_a + i + 2 * high);
        const std::uint32_t right = word((lane % 4 * 2 + i) * 4 + t, at_b + high);
        std::memcpy(rows[i] + 16 * high + 4 * t, &left, 4);
        std::memcpy(columns[i] + 16 * high + 4 * t, &right, 4);
      }
    }
  }
  for (unsigned r = 0; r < 4; ++r) {
    int sum = 0;
    for (unsigned k = 0; k < 32; ++k) sum += rows[r / 2][k] * columns[r % 2][k];
    c[r] += sum;
  }
}

}  // namespace driftgate::gpu::test
