#pragma once

#include <atomic>
#include <cstdint>

namespace driftgate::fault {

/// What the shim does to the calls that change files below one folder: write, writev, pwrite, fsync,
/// fdatasync, ftruncate, rename, link, unlink, numbered from 0 as they come.
struct ShimPlan {
  enum class Mode : std::uint8_t {
    off,
    kill_before,  ///< SIGKILL instead of call `at`
    kill_after,   ///< SIGKILL right after call `at`
    fail_once,    ///< call `at` fails with `error`
    fail_on,      ///< call `at` and all after it fail with `error`, until `heal`
  };
  Mode mode = Mode::off;
  std::int64_t at = 0;
  int error = 0;            ///< errno
  bool syncs_only = false;  ///< number fsync and fdatasync only
  char folder[256] = {};    ///< absolute; only files below it
  /// Counts the numbered calls when set; in memory that a parent shares, so that it outlives a kill.
  std::atomic<std::int64_t>* calls = nullptr;
};

/// Interposes on libc in this program, so that SQLite's calls pass through it too.
void arm_shim(const ShimPlan& plan);

}  // namespace driftgate::fault
