#include "gpu/cpu/thread_pool.hpp"

namespace driftgate::gpu::cpu {

ThreadPool::ThreadPool(std::uint32_t threads) {
  for (std::size_t thread = 1; thread < threads; ++thread) {
    others_.emplace_back([this, thread] { serve(thread); });
  }
}

ThreadPool::~ThreadPool() {
  work_ = nullptr;
  ++turn_;
  turn_.notify_all();
}

void ThreadPool::run(const std::function<void(std::size_t)>& work) {
  if (others_.empty()) return work(0);
  work_ = &work;
  busy_ = static_cast<std::uint32_t>(others_.size());
  ++turn_;
  turn_.notify_all();
  work(0);
  for (std::uint32_t left = busy_; left > 0; left = busy_) busy_.wait(left);
}

void ThreadPool::serve(std::size_t thread) {
  for (std::uint32_t turn = 0;;) {
    turn_.wait(turn);
    // No turn is missed: the next one begins only when every thread has finished this one.
    ++turn;
    if (work_ == nullptr) return;
    (*work_)(thread);
    if (--busy_ == 0) busy_.notify_one();
  }
}

}  // namespace driftgate::gpu::cpu
