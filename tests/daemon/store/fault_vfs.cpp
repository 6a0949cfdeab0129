#include "tests/daemon/store/fault_vfs.hpp"

#include <sqlite3.h>

#include <cstddef>

namespace driftgate::store::testing {

namespace {

Faults faults;

struct FaultFile {
  sqlite3_file base;
  sqlite3_file* real;
};

sqlite3_file* real_of(sqlite3_file* file) {
  return reinterpret_cast<FaultFile*>(file)->real;
}

/// Whether the countdown has run out.
bool due(std::atomic<int>& countdown) {
  int left = countdown.load();
  if (left == 0) return false;
  if (left > 1) return --countdown == 0 ? (countdown = 1, true) : false;
  return true;
}

int write_file(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  if (due(faults.fail_write_full)) return SQLITE_FULL;
  if (due(faults.fail_write)) return SQLITE_IOERR_WRITE;
  return real_of(file)->pMethods->xWrite(real_of(file), bytes, size, offset);
}

int sync_file(sqlite3_file* file, int flags) {
  if (due(faults.fail_sync)) return SQLITE_IOERR_FSYNC;
  return real_of(file)->pMethods->xSync(real_of(file), flags);
}

#define FORWARD(method) real_of(file)->pMethods->method

const sqlite3_io_methods& methods() {
  static const sqlite3_io_methods table{
      .iVersion = 2,
      .xClose = [](sqlite3_file* file) { return FORWARD(xClose)(real_of(file)); },
      .xRead = [](sqlite3_file* file, void* to, int size,
                  sqlite3_int64 at) { return FORWARD(xRead)(real_of(file), to, size, at); },
      .xWrite = write_file,
      .xTruncate = [](sqlite3_file* file,
                      sqlite3_int64 size) { return FORWARD(xTruncate)(real_of(file), size); },
      .xSync = sync_file,
      .xFileSize = [](sqlite3_file* file,
                      sqlite3_int64* size) { return FORWARD(xFileSize)(real_of(file), size); },
      .xLock = [](sqlite3_file* file, int lock) { return FORWARD(xLock)(real_of(file), lock); },
      .xUnlock = [](sqlite3_file* file, int lock) { return FORWARD(xUnlock)(real_of(file), lock); },
      .xCheckReservedLock = [](sqlite3_file* file,
                               int* held) { return FORWARD(xCheckReservedLock)(real_of(file), held); },
      .xFileControl = [](sqlite3_file* file, int op,
                         void* argument) { return FORWARD(xFileControl)(real_of(file), op, argument); },
      .xSectorSize = [](sqlite3_file* file) { return FORWARD(xSectorSize)(real_of(file)); },
      .xDeviceCharacteristics =
          [](sqlite3_file* file) { return FORWARD(xDeviceCharacteristics)(real_of(file)); },
      .xShmMap =
          [](sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
            return FORWARD(xShmMap)(real_of(file), page, size, extend, memory);
          },
      .xShmLock = [](sqlite3_file* file, int offset, int n,
                     int flags) { return FORWARD(xShmLock)(real_of(file), offset, n, flags); },
      .xShmBarrier =
          [](sqlite3_file* file) {
            FORWARD(xShmBarrier)
            (real_of(file));
          },
      .xShmUnmap = [](sqlite3_file* file, int remove) { return FORWARD(xShmUnmap)(real_of(file), remove); },
      .xFetch = nullptr,
      .xUnfetch = nullptr};
  return table;
}

int open_file(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  auto* const real_vfs = static_cast<sqlite3_vfs*>(vfs->pAppData);
  auto* const wrapped = reinterpret_cast<FaultFile*>(file);
  wrapped->real = reinterpret_cast<sqlite3_file*>(reinterpret_cast<std::byte*>(file) + sizeof(FaultFile));
  const int rc = real_vfs->xOpen(real_vfs, name, wrapped->real, flags, out_flags);
  wrapped->base.pMethods = wrapped->real->pMethods == nullptr ? nullptr : &methods();
  return rc;
}

}  // namespace

Faults& fault_vfs() {
  static const bool registered = [] {
    static sqlite3_vfs vfs = *sqlite3_vfs_find(nullptr);
    vfs.pAppData = sqlite3_vfs_find(nullptr);
    vfs.pNext = nullptr;
    vfs.zName = "fault";
    vfs.szOsFile += static_cast<int>(sizeof(FaultFile));
    vfs.xOpen = open_file;
    return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK;
  }();
  if (registered) {
    faults.fail_sync = 0;
    faults.fail_write_full = 0;
    faults.fail_write = 0;
  }
  return faults;
}

}  // namespace driftgate::store::testing
