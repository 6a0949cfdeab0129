#include "daemon/route/relay/deadlines.hpp"

#include <utility>

namespace driftgate::route {

Deadlines::Watch::Watch(Deadlines& list, std::function<void()> on_fire)
    : list_(list), on_fire_(std::move(on_fire)), next_(list.first_) {
  if (next_ != nullptr) next_->previous_ = this;
  list_.first_ = this;
}

Deadlines::Watch::~Watch() {
  if (next_ != nullptr) next_->previous_ = previous_;
  if (previous_ != nullptr) previous_->next_ = next_;
  if (list_.first_ == this) list_.first_ = next_;
}

void Deadlines::tick(Time now) {
  for (auto* watch = first_; watch != nullptr; watch = watch->next_) {
    if (now < watch->at_) continue;
    watch->clear();
    watch->on_fire_();
  }
}

}  // namespace driftgate::route
