#include "stages/guard/identity.hpp"

#include <utility>

namespace driftgate::stages {

std::vector<IdentityChange> identity_changes(const Identity& promoted, const Identity& now) {
  std::vector<IdentityChange> changes;
  for (const auto& [name, value] : promoted) {
    const auto found = now.find(name);
    const std::string seen = found == now.end() ? std::string() : found->second;
    if (seen != value) changes.push_back({name, value, seen});
  }
  return changes;
}

std::vector<IdentityChange> IdentityWatch::observe(const Identity& now) {
  auto changes = identity_changes(promoted_, now);
  const bool again = changes == last_;
  if (!again) {
    last_ = std::move(changes);
    told_ = false;
    return {};
  }
  if (last_.empty() || told_) return {};
  told_ = true;
  return last_;
}

void IdentityWatch::continue_from(std::vector<IdentityChange> last, bool told) {
  last_ = std::move(last);
  told_ = told;
}

}  // namespace driftgate::stages
