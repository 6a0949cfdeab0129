#include "daemon/api/read_notes.hpp"

#include <algorithm>
#include <utility>

namespace driftgate::api {

std::optional<std::int64_t> ReadNotes::admit(const std::string& actor, const std::string& what,
                                             std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  if (readers_.size() >= kMaxReaders && !readers_.contains(actor)) {
    readers_.erase(
        std::ranges::min_element(readers_, {}, [](const auto& item) { return item.second.seen_us; }));
  }
  Reader& reader = readers_[actor];
  const std::int64_t passed = reader.seen_us == 0 ? 0 : std::max<std::int64_t>(0, now_us - reader.seen_us);
  reader.left = std::min(kBurst, reader.left + static_cast<double>(passed) / static_cast<double>(kRefill_us));
  reader.seen_us = now_us;
  const std::int64_t since = now_us - reader.last_us;
  const bool repeated = what == reader.last && since >= 0 && since < kRepeat_us;
  if (repeated || reader.left < 1) {
    ++reader.uncounted;
    return std::nullopt;
  }
  reader.left -= 1;
  reader.last = what;
  reader.last_us = now_us;
  const std::int64_t uncounted = reader.uncounted;
  reader.uncounted = 0;
  return uncounted;
}

void ReadNotes::owe(const std::string& actor, const Owed& owed) {
  const std::lock_guard lock(mutex_);
  const bool full = owed_.size() >= kMaxReaders && !owed_.contains(actor);
  Owed& kept = full ? owed_.begin()->second : owed_[actor];
  if (!full) kept.what = owed.what;
  kept.reads += owed.reads;
}

ReadNotes::OwedBy ReadNotes::take_owed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(owed_, {});
}

}  // namespace driftgate::api
