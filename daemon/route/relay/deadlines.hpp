#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace driftgate::route {

/// Many deadlines, set and cleared often, that rarely fire: a list walked by a coarse tick, so that
/// setting one costs a store and no timer operation. One thread.
class Deadlines {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kTick{20};
  static constexpr std::chrono::milliseconds kLate{100};  ///< a tick so long after the one before is late

  /// One deadline; fires at most once for each time it is set. `on_fire` must not destroy watches.
  class Watch
      : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    Watch(Deadlines& list, std::function<void()> on_fire) : on_fire_(std::move(on_fire)) {
      list.watches_.push_front(*this);
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    void set(Time at) { at_ = at; }
    void clear() { at_ = Time::max(); }

   private:
    friend class Deadlines;
    const std::function<void()> on_fire_;
    Time at_ = Time::max();
  };

  /// Fires what is due. A late tick fires nothing, unless the one before was late too: what arrived while the
  /// thread did not run is handled first, so that nobody else is blamed for it.
  void tick(Time now);

 private:
  boost::intrusive::list<Watch, boost::intrusive::constant_time_size<false>> watches_;
  Time last_{};
  bool was_late_ = false;
};

}  // namespace driftgate::route
