#include "stages/canary/key_periods.hpp"

#include <algorithm>
#include <utility>

#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

constexpr std::uint32_t kMostHalvings = 63;
// Offsets and halvings are hashes of their own.
constexpr std::uint64_t kOffsets = 0x6f66667365747321, kHalves = 0x68616c7665732121;

}  // namespace

std::int64_t key_period(std::uint64_t key, std::int64_t at_us, std::int64_t length_us) {
  const auto offset =
      static_cast<std::int64_t>(mix64(key ^ kOffsets) % static_cast<std::uint64_t>(length_us));
  return (at_us + offset) / length_us;
}

bool KeyPeriods::is_left_out(std::uint64_t key) const {
  return (mix64(key ^ kHalves) & ((std::uint64_t{1} << halvings_) - 1)) != 0;
}

bool KeyPeriods::first(std::uint64_t key, std::int64_t at_us) {
  const bool next_hour = at_us / kKeyPeriodUs > newest_us_ / kKeyPeriodUs;
  newest_us_ = std::max(newest_us_, at_us);
  if (next_hour) {
    sweep(newest_us_);
    if (halvings_ > 0 && last_.size() < most_ / 4) --halvings_;
  }
  if (is_left_out(key)) return false;
  const std::int64_t period = key_period(key, newest_us_);
  const auto [known, inserted] = last_.try_emplace(key, period);
  if (!inserted && known->second >= period) return false;
  known->second = period;
  new_.push_back({key, period});
  if (last_.size() >= most_) {
    sweep(newest_us_);
    leave_out();
  }
  return true;
}

void KeyPeriods::leave_out() {
  while (last_.size() > most_ / 4 * 3 && halvings_ < kMostHalvings) {
    ++halvings_;
    std::erase_if(last_, [this](const auto& one) { return is_left_out(one.first); });
  }
}

void KeyPeriods::sweep(std::int64_t at_us) {
  swept_us_ = at_us;
  std::erase_if(last_, [at_us](const auto& one) { return key_period(one.first, at_us) > one.second; });
}

void KeyPeriods::begin(std::int64_t now_us, std::span<const CountedKey> keys) {
  resume(now_us, now_us, 0, keys);
  if (last_.size() >= most_) leave_out();
  for (const auto& [key, period] : last_) new_.push_back({key, period});
}

std::vector<CountedKey> KeyPeriods::take_new() {
  return std::exchange(new_, {});
}

void KeyPeriods::resume(std::int64_t newest_us, std::int64_t swept_us, std::uint32_t halvings,
                        std::span<const CountedKey> keys) {
  newest_us_ = newest_us;
  halvings_ = std::min(halvings, kMostHalvings);
  last_.clear();
  new_.clear();
  for (const CountedKey& one : keys) {
    if (!is_left_out(one.key)) last_[one.key] = one.period;
  }
  sweep(swept_us);
}

}  // namespace driftgate::stages
