// Stands before libc's calls that change files, in a test's own program or, as a library named in LD_PRELOAD,
// in the daemon's: kills the process at a chosen one, or lets it fail. Also moves the wall clock.
#include "tests/fault/shim.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace driftgate::fault {
namespace {

ShimPlan plan;
std::atomic<std::int64_t> calls{0};

/// What a test writes into the file named by DRIFTGATE_SHIM_CLOCK; mapped, so that it acts at once.
struct WallClock {
  volatile std::int64_t offset_ns;
  volatile std::int64_t frozen_at_ns;  ///< 0: it runs
};
const WallClock* wall = nullptr;

bool below_folder(const char* path) {
  const std::size_t size = ::strlen(plan.folder);
  return size > 0 && ::strncmp(path, plan.folder, size) == 0 && path[size] == '/';
}

bool concerns(int fd) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char path[512];
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = '\0';
  return below_folder(path) || ::strcmp(path, plan.folder) == 0;
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

/// Runs one numbered call, or what the plan says instead.
template <typename Call>
long numbered(bool mine, bool is_sync, Call call) {
  using Mode = ShimPlan::Mode;
  if (plan.mode == Mode::off || !mine || (plan.syncs_only && !is_sync)) return call();
  const auto number = calls.fetch_add(1);
  if (plan.calls != nullptr) plan.calls->store(number + 1);
  const bool here = number == plan.at;
  if (here && plan.mode == Mode::kill_before) die();
  const bool spared = is_sync && plan.error == ENOSPC;  // a full disk refuses writes
  if (!spared &&
      ((here && plan.mode == Mode::fail_once) || (number >= plan.at && plan.mode == Mode::fail_on))) {
    errno = plan.error;
    return -1;
  }
  const long result = call();
  if (here && plan.mode == Mode::kill_after) die();
  return result;
}

/// DRIFTGATE_SHIM="MODE AT ERRNO FOLDER", for a program that was started with the shim in LD_PRELOAD. Its
/// children are left alone.
[[gnu::constructor]] void read_environment() {
  if (const char* text = ::getenv("DRIFTGATE_SHIM")) {
    int mode = 0;
    long at = 0;
    if (std::sscanf(text, "%d %ld %d %255s", &mode, &at, &plan.error, plan.folder) == 4) {
      plan.at = at;
      plan.mode = static_cast<ShimPlan::Mode>(mode);
    }
    ::unsetenv("DRIFTGATE_SHIM");
    ::unsetenv("LD_PRELOAD");
  }
  if (const char* path = ::getenv("DRIFTGATE_SHIM_CLOCK")) {
    const int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    void* const mapped = ::mmap(nullptr, sizeof(WallClock), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) wall = static_cast<const WallClock*>(mapped);
    ::unsetenv("DRIFTGATE_SHIM_CLOCK");
    ::unsetenv("LD_PRELOAD");
  }
}

}  // namespace

void arm_shim(const ShimPlan& wanted) {
  plan = wanted;
  calls = 0;
}

}  // namespace driftgate::fault

using driftgate::fault::below_folder;
using driftgate::fault::concerns;
using driftgate::fault::numbered;
using driftgate::fault::plan;
using driftgate::fault::wall;

namespace {

bool armed() {
  return plan.mode != driftgate::fault::ShimPlan::Mode::off;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  return numbered(armed() && concerns(fd), false, [&] { return ::syscall(SYS_write, fd, bytes, size); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
  return numbered(armed() && concerns(fd), false, [&] { return ::syscall(SYS_writev, fd, parts, count); });
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  return numbered(armed() && concerns(fd), false,
                  [&] { return ::syscall(SYS_pwrite64, fd, bytes, size, at); });
}
int fsync(int fd) {
  return static_cast<int>(numbered(armed() && concerns(fd), true, [&] { return ::syscall(SYS_fsync, fd); }));
}
int fdatasync(int fd) {
  return static_cast<int>(
      numbered(armed() && concerns(fd), true, [&] { return ::syscall(SYS_fdatasync, fd); }));
}
int ftruncate64(int fd, off64_t size) noexcept {
  return static_cast<int>(
      numbered(armed() && concerns(fd), false, [&] { return ::syscall(SYS_ftruncate, fd, size); }));
}
int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(
      numbered(armed() && below_folder(to), false, [&] { return ::syscall(SYS_rename, from, to); }));
}
int link(const char* from, const char* to) noexcept {
  return static_cast<int>(
      numbered(armed() && below_folder(to), false, [&] { return ::syscall(SYS_link, from, to); }));
}
int unlink(const char* path) noexcept {
  return static_cast<int>(
      numbered(armed() && below_folder(path), false, [&] { return ::syscall(SYS_unlink, path); }));
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (wall == nullptr || clock != CLOCK_REALTIME || result != 0) return result;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t frozen = wall->frozen_at_ns;
  const std::int64_t told = frozen != 0 ? frozen : now->tv_sec * kSecond + now->tv_nsec + wall->offset_ns;
  now->tv_sec = told / kSecond;
  now->tv_nsec = told % kSecond;
  return result;
}
int gettimeofday(timeval* now, void*) noexcept {
  timespec precise{};
  const int result = ::clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1'000;
  return result;
}
}
