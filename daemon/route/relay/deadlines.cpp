#include "daemon/route/relay/deadlines.hpp"

namespace driftgate::route {

void Deadlines::tick(Time now) {
  const bool late = now - last_ > kLate && !was_late_;
  last_ = now;
  was_late_ = late;
  if (late) return;
  for (auto& watch : watches_) {
    if (now < watch.at_) continue;
    watch.clear();
    watch.on_fire_();
  }
}

}  // namespace driftgate::route
