#include "stages/guard/day_keys.hpp"

#include <utility>

#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {
constexpr std::uint32_t kMostHalvings = 63;
}

bool DayKeys::is_left_out(std::uint64_t key) const {
  const std::uint64_t hash = mix64(key ^ mix64(static_cast<std::uint64_t>(day_)));
  return (hash & ((std::uint64_t{1} << halvings_) - 1)) != 0;
}

bool DayKeys::first(std::uint64_t key, std::int64_t routed_us) {
  if (const std::int64_t day = routed_us / kDayUs; day > day_) {
    day_ = day;
    halvings_ = 0;
    keys_.clear();
    new_.clear();
  }
  if (is_left_out(key) || !keys_.insert(key).second) return false;
  new_.push_back(key);
  while (keys_.size() >= most_ && halvings_ < kMostHalvings) {
    ++halvings_;
    std::erase_if(keys_, [this](std::uint64_t one) { return is_left_out(one); });
  }
  return true;
}

std::vector<std::uint64_t> DayKeys::take_new() {
  return std::exchange(new_, {});
}

void DayKeys::resume(std::int64_t day, std::uint32_t halvings, std::span<const std::uint64_t> keys) {
  day_ = day;
  halvings_ = halvings < kMostHalvings ? halvings : kMostHalvings;
  keys_.clear();
  new_.clear();
  for (const std::uint64_t key : keys) {
    if (!is_left_out(key)) keys_.insert(key);
  }
}

}  // namespace driftgate::stages
