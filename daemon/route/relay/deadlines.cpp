#include "daemon/route/relay/deadlines.hpp"

#include <algorithm>

namespace driftgate::route {

/// Into the slot of its time; not before the current one, and not behind the last one of the wheel.
void Deadlines::file(Watch& watch) {
  if (watch.is_linked()) watch.unlink();
  watch.slot_ = std::clamp(slot_of(watch.at_), current_, current_ + kSlots - 1);
  place_of(watch.slot_).push_back(watch);
}

void Deadlines::look_at(Slot& slot, Time now) {
  Slot found;
  found.splice(found.end(), slot);
  while (!found.empty()) {
    Watch& watch = found.front();
    found.pop_front();
    watch.slot_ = kNowhere;
    if (now >= watch.at_) {
      watch.clear();
      watch.on_fire_();
    } else if (watch.at_ != Time::max()) {
      file(watch);
    }
  }
}

void Deadlines::tick(Time now) {
  const bool late = now - last_ > kLate && !was_late_;
  last_ = now;
  was_late_ = late;
  if (late) return;
  const auto first = std::exchange(current_, std::max(current_, slot_of(now)));
  const auto count = std::min(current_ - first + 1, kSlots);
  for (std::int64_t i = 0; i < count; ++i) look_at(place_of(first + i), now);
}

}  // namespace driftgate::route
