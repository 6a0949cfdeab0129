#include "gpu/ranks/rank_progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace driftgate::gpu {

using schema::Result;

namespace {

constexpr std::uint64_t kStopping = std::uint64_t{1} << 63;  ///< beside the number of rows

}  // namespace

RankProgress::RankProgress(Collective& collective, std::chrono::milliseconds timeout, std::uint64_t own,
                           std::uint64_t longest, std::uint64_t total, Progress progress,
                           std::function<bool()> stop)
    : collective_(collective),
      timeout_(timeout),
      own_(own),
      rounds_(std::min(longest, most_rounds(collective.size()))),
      total_(total),
      progress_(std::move(progress)),
      stop_asked_(std::move(stop)),
      thread_([this] { run(); }) {}

RankProgress::~RankProgress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RankProgress::reached(std::uint64_t rows) {
  const std::lock_guard lock(mutex_);
  reached_ = rows;
  changed_.notify_all();
}

Result<void> RankProgress::failure() {
  const std::lock_guard lock(mutex_);
  if (error_) return std::unexpected(*error_);
  return {};
}

bool RankProgress::stopping() {
  const bool asked = stop_asked_ && stop_asked_();
  const std::lock_guard lock(mutex_);
  return stopping_ = stopping_ || asked;
}

Result<void> RankProgress::finish() {
  reached(own_);
  thread_.join();
  return failure();
}

void RankProgress::run() {
  for (std::uint64_t number = 1; number <= rounds_; ++number) {
    {
      // Written so that it cannot overflow for any number of rows.
      const std::uint64_t due = own_ / rounds_ * number + own_ % rounds_ * number / rounds_;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || reached_ >= due; });
      if (stop_) return;
    }
    if (auto ok = round(number); !ok) {
      const std::lock_guard lock(mutex_);
      error_ = ok.error();
      return;
    }
  }
}

Result<void> RankProgress::round(std::uint64_t number) {
  const bool stop = stopping();
  std::uint64_t mine = 0;
  {
    const std::lock_guard lock(mutex_);
    mine = reached_ | (stop ? kStopping : 0);
  }
  std::vector<std::uint64_t> all(collective_.size());
  const Wait wait{fmt::format("rows done, round {} of {}", number, rounds_), timeout_};
  if (auto ok = collective_.all_gather(wait, std::as_bytes(std::span(&mine, 1)),
                                       std::as_writable_bytes(std::span(all)));
      !ok) {
    return ok;
  }
  if (std::ranges::any_of(all, [](std::uint64_t rows) { return (rows & kStopping) != 0; })) {
    // From here on a rank that has stopped counts rows as done that are not.
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    return {};
  }
  const std::uint64_t done = std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  if (progress_ && collective_.rank() == 0) progress_(done, total_);
  return {};
}

}  // namespace driftgate::gpu
