#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace driftgate::pipeline {

/// Values that are costly to make and follow from their key alone, such as a digest. Holds those that were
/// used last, up to a sum of weights. Thread-safe.
template <typename Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t most_weight) : most_weight_(most_weight) {}

  [[nodiscard]] std::optional<Value> find(std::string_view key) {
    const std::lock_guard guard(mutex_);
    for (auto item = items_.begin(); item != items_.end(); ++item) {
      if (item->key != key) continue;
      items_.splice(items_.begin(), items_, item);
      return item->value;
    }
    return std::nullopt;
  }

  /// A value heavier than all that may be held is not kept.
  void put(std::string key, Value value, std::size_t weight) {
    const std::lock_guard guard(mutex_);
    for (const auto& item : items_)
      if (item.key == key) return;
    if (weight > most_weight_) return;
    items_.push_front({std::move(key), std::move(value), weight});
    weight_ += weight;
    while (weight_ > most_weight_) {
      weight_ -= items_.back().weight;
      items_.pop_back();
    }
  }

 private:
  struct Item {
    std::string key;
    Value value;
    std::size_t weight = 0;
  };
  const std::size_t most_weight_;
  std::mutex mutex_;
  std::list<Item> items_;  ///< the one used last comes first
  std::size_t weight_ = 0;
};

}  // namespace driftgate::pipeline
