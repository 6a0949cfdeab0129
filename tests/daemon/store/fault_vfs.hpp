#pragma once

#include <atomic>

namespace driftgate::store::testing {

/// What the VFS named "fault" does wrong; 0 is nothing. Counts down: the n-th call from now fails, and all
/// after it.
struct Faults {
  std::atomic<int> fail_sync{0};        ///< xSync returns SQLITE_IOERR_FSYNC
  std::atomic<int> fail_write_full{0};  ///< xWrite returns SQLITE_FULL
  std::atomic<int> fail_write{0};       ///< xWrite returns SQLITE_IOERR_WRITE
};

/// Registers the VFS "fault" over the default one (once) and returns its faults.
Faults& fault_vfs();

}  // namespace driftgate::store::testing
