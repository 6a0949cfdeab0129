#include "gpu/cpu/crew.hpp"

namespace driftgate::gpu::cpu {

Crew::Crew(std::uint32_t threads) {
  for (std::size_t thread = 1; thread < threads; ++thread) {
    others_.emplace_back([this, thread] { serve(thread); });
  }
}

Crew::~Crew() {
  work_ = nullptr;
  ++turn_;
  turn_.notify_all();
}

void Crew::run(const std::function<void(std::size_t)>& work) {
  if (others_.empty()) return work(0);
  work_ = &work;
  busy_ = static_cast<std::uint32_t>(others_.size());
  ++turn_;
  turn_.notify_all();
  work(0);
  for (std::uint32_t left = busy_; left > 0; left = busy_) busy_.wait(left);
}

void Crew::serve(std::size_t thread) {
  for (std::uint32_t turn = 0;;) {
    turn_.wait(turn);
    // No turn is missed: the next begins when this one is over in every thread.
    ++turn;
    if (work_ == nullptr) return;
    (*work_)(thread);
    if (--busy_ == 0) busy_.notify_one();
  }
}

}  // namespace driftgate::gpu::cpu
