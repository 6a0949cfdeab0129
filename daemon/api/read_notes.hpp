#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace driftgate::api {

/// Decides which reads of the log become an entry, so that reading cannot flood it: of one person at most
/// kBurst at once and one each kRefill_us on average, and the same question once each kRepeat_us. The others are
/// counted in the person's next entry.
class ReadNotes {
 public:
  static constexpr double kBurst = 60;
  static constexpr std::int64_t kRefill_us = 10'000'000;
  static constexpr std::int64_t kRepeat_us = 60'000'000;
  static constexpr std::size_t kMaxReaders = 1'024;  ///< the one that read longest ago is forgotten

  /// Reads of `actor` since the last entry that have none, when this read is to have one. Thread-safe.
  [[nodiscard]] std::optional<std::int64_t> admit(const std::string& actor, const std::string& what,
                                                  std::int64_t now_us);

  /// Reads that were served although they could not be recorded, since the disk was full: of one person, what the
  /// newest was and how many there were.
  struct Owed {
    std::string what{};
    std::int64_t reads = 0;
  };
  using OwedBy = std::map<std::string, Owed>;
  /// Keeps a read to be recorded once there is space. Thread-safe. Beyond kMaxReaders people those of others are
  /// counted under the name of the first.
  void owe(const std::string& actor, const Owed& owed);
  /// Takes what is owed; give it back with owe when it cannot be recorded either. Thread-safe.
  [[nodiscard]] OwedBy take_owed();

 private:
  struct Reader {
    double left = kBurst;
    std::int64_t seen_us = 0;
    std::string last{};
    std::int64_t last_us = 0;
    std::int64_t uncounted = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Reader> readers_;
  OwedBy owed_;
};

}  // namespace driftgate::api
