#include "daemon/evidence/verify/background_check.hpp"

#include <algorithm>
#include <utility>

#include "daemon/evidence/verify/table_checks.hpp"

namespace driftgate::evidence {

using schema::ErrorCode;

namespace {

constexpr std::chrono::milliseconds kMinPause{1};
constexpr std::chrono::seconds kMaxPause{5};
constexpr std::chrono::seconds kRetry{1};  ///< when all readers are busy, or the disk is slow

/// Whether the same read may succeed later.
bool is_passing(const schema::Error& error) {
  return error.code == ErrorCode::unavailable || error.code == ErrorCode::deadline_exceeded;
}

}  // namespace

BackgroundCheck::BackgroundCheck(store::Store& store, const Checkpoint& head,
                                 std::function<void(const Difference&)> on_difference)
    : store_(store), entries_(head.size, head.root), on_difference_(std::move(on_difference)) {
  progress_.entries_total = head.size;
  thread_ = std::thread([this] { run(); });
}

BackgroundCheck::~BackgroundCheck() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

CheckProgress BackgroundCheck::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void BackgroundCheck::run() {
  auto done = check_entries();
  if (done && *done) done = check_tables();
  const std::lock_guard lock(mutex_);
  if (!done) progress_.failure = std::move(done.error());
  progress_.is_finished = done && *done;
}

Result<bool> BackgroundCheck::check_entries() {
  worked_since_ = Clock::now();
  for (;;) {
    std::vector<Difference> found;
    auto more = store_.read([&](store::Reader& reader) { return entries_.step(reader, found); });
    if (!more && !is_passing(more.error())) return more;
    take(std::move(found));
    if (!(more ? pause() : wait(kRetry))) return false;
    if (more && !*more) return true;
  }
}

Result<bool> BackgroundCheck::check_tables() {
  for (;;) {
    bool stopped = false;
    auto found = compare_all_tables(store_, [&] {
      stopped = !pause();
      return !stopped;
    });
    if (found) take(std::move(*found));
    if (stopped) return false;
    if (found) return true;
    if (!is_passing(found.error())) return std::unexpected(std::move(found.error()));
    if (!wait(kRetry)) return false;
  }
}

void BackgroundCheck::take(std::vector<Difference> found) {
  for (Difference& difference : found) {
    if (progress().named.size() < kMaxNamedDifferences) on_difference_(difference);
    const std::lock_guard lock(mutex_);
    ++progress_.differences;
    if (progress_.named.size() < kMaxNamedDifferences) progress_.named.push_back(std::move(difference));
  }
  const std::lock_guard lock(mutex_);
  progress_.entries = entries_.done();
}

bool BackgroundCheck::pause() {
  const auto worked = Clock::now() - worked_since_;
  const bool go_on = wait(std::clamp<Clock::duration>(worked, kMinPause, kMaxPause));
  worked_since_ = Clock::now();
  return go_on;
}

bool BackgroundCheck::wait(Clock::duration time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
}

}  // namespace driftgate::evidence
