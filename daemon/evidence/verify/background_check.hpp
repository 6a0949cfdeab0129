#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/evidence/keys/signed_note.hpp"
#include "daemon/evidence/verify/difference.hpp"
#include "daemon/evidence/verify/entry_check.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::evidence {

inline constexpr std::size_t kMaxNamedDifferences = 100;

/// How far the check of a running daemon is, and what it found.
struct CheckProgress {
  std::uint64_t entries = 0;        ///< hashed and compared
  std::uint64_t entries_total = 0;  ///< that the log had when the check began
  bool is_finished = false;         ///< entries and tables
  std::uint64_t differences = 0;
  std::vector<Difference> named{};           ///< the first kMaxNamedDifferences
  std::optional<schema::Error> failure{};    ///< why it ended before all was read
};

/// Compares, in a thread of its own, everything in the database with the signed log: first the entries
/// (EntryCheck), then the tables (compare_all_tables). It works at most half of the time, in reads of
/// milliseconds, and ends within one of them when it is stopped.
class BackgroundCheck {
 public:
  /// `on_difference` is called from the thread for each of the first kMaxNamedDifferences.
  BackgroundCheck(store::Store& store, const Checkpoint& head,
                  std::function<void(const Difference&)> on_difference);
  ~BackgroundCheck();  ///< stops
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  [[nodiscard]] CheckProgress progress() const;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  /// False when it was stopped, and so of check_tables.
  Result<bool> check_entries();
  Result<bool> check_tables();
  void take(std::vector<Difference> found);
  /// Rests as long as it worked. False: stop.
  bool pause();
  bool wait(Clock::duration time);

  store::Store& store_;
  EntryCheck entries_;  ///< of the thread alone
  const std::function<void(const Difference&)> on_difference_;
  Clock::time_point worked_since_{};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  CheckProgress progress_;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace driftgate::evidence
