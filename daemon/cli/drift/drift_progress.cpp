#include "daemon/cli/drift/drift_progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace driftgate::cli {

namespace {
constexpr std::chrono::milliseconds kQuiet{1'000}, kBetween{200};
constexpr std::size_t kWidth = 30;
}  // namespace

DriftProgress::DriftProgress()
    : terminal_(::isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

DriftProgress::~DriftProgress() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void DriftProgress::update(std::uint64_t done, std::uint64_t total) {
  if (!terminal_ || total == 0) return;
  const auto now = Clock::now();
  if (now - start_ < kQuiet || (now - last_ < kBetween && done < total)) return;
  last_ = now;
  shown_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kWidth));
  const double left = share > 0 ? seconds * (1 - share) / share : 0;
  fmt::print(stderr, "\r\x1b[K[{}{}] {:3.0f}%  {} of {} rows, {:.0f} rows/s, {:.0f} s left",
             std::string(filled, '#'), std::string(kWidth - filled, '.'), 100 * share, done, total,
             static_cast<double>(done) / seconds, left);
  std::fflush(stderr);
}

}  // namespace driftgate::cli
