#pragma once

#include <chrono>
#include <functional>

namespace driftgate::route {

/// Many deadlines, set and cleared often, that rarely fire: a list walked by a coarse tick, so that
/// setting one costs a store and no timer operation. One thread.
class Deadlines {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kTick{20};

  /// One deadline; fires at most once for each time it is set. `on_fire` must not destroy watches.
  class Watch {
   public:
    Watch(Deadlines& list, std::function<void()> on_fire);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    void set(Time at) { at_ = at; }
    void clear() { at_ = Time::max(); }

   private:
    friend class Deadlines;
    Deadlines& list_;
    const std::function<void()> on_fire_;
    Time at_ = Time::max();
    Watch* next_ = nullptr;
    Watch* previous_ = nullptr;
  };

  /// Fires what is due.
  void tick(Time now);

 private:
  Watch* first_ = nullptr;
};

}  // namespace driftgate::route
