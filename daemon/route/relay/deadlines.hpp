#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

namespace driftgate::route {

/// Many deadlines, set and cleared often, that rarely fire: a wheel of slots with a coarse tick. Setting a
/// later time than before, and clearing, costs a store: a watch is looked at when its slot comes up, and only
/// then moved on. One thread.
class Deadlines {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kTick{20};
  static constexpr std::chrono::milliseconds kLate{100};  ///< a tick so long after the one before is late

  /// One deadline; fires at most once for each time it is set. `on_fire` must not destroy watches.
  class Watch
      : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    Watch(Deadlines& deadlines, std::function<void()> on_fire)
        : deadlines_(deadlines), on_fire_(std::move(on_fire)) {}
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    void set(Time at) {
      at_ = at;
      if (slot_of(at) < slot_) deadlines_.file(*this);
    }
    void clear() { at_ = Time::max(); }

   private:
    friend class Deadlines;
    Deadlines& deadlines_;
    const std::function<void()> on_fire_;
    Time at_ = Time::max();
    std::int64_t slot_ = kNowhere;  ///< that it is in: of its time or before
  };

  /// The time of the newest tick, without asking the clock. Not for limits of others' work: after a tick that
  /// was late it has not moved yet.
  [[nodiscard]] Time coarse_now() const { return last_; }

  /// Fires what is due. A late tick fires nothing, unless the one before was late too: what arrived while the
  /// thread did not run is handled first, so that nobody else is blamed for it.
  void tick(Time now);

 private:
  using Slot = boost::intrusive::list<Watch, boost::intrusive::constant_time_size<false>>;
  static constexpr std::int64_t kSlots = 512;  ///< about 10 s; later times are looked at once in between
  static constexpr std::int64_t kNowhere = std::numeric_limits<std::int64_t>::max();

  /// Slots are numbered through; of each kSlots in a row one stands at each place of the wheel.
  [[nodiscard]] static std::int64_t slot_of(Time at) { return at.time_since_epoch() / kTick; }
  [[nodiscard]] Slot& place_of(std::int64_t slot) { return wheel_[static_cast<std::size_t>(slot % kSlots)]; }
  void file(Watch& watch);
  void look_at(Slot& slot, Time now);

  std::array<Slot, static_cast<std::size_t>(kSlots)> wheel_;
  std::int64_t current_ = 0;  ///< the slot of the newest tick; it and those behind it are not done
  Time last_ = Time::clock::now();
  bool was_late_ = false;
};

}  // namespace driftgate::route
