#include "daemon/route/relay/deadlines.hpp"

namespace driftgate::route {

void Deadlines::tick(Time now) {
  for (auto& watch : watches_) {
    if (now < watch.at_) continue;
    watch.clear();
    watch.on_fire_();
  }
}

}  // namespace driftgate::route
