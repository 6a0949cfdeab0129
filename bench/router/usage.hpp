#pragma once

#include <cstdint>
#include <vector>

namespace driftgate::bench {

/// Processor time that processes have used since they started, all of their threads together.
struct Usage {
  std::uint64_t cpu_ns = 0;        ///< user and system, by the clocks of the processes (clock_getcpuclockid)
  std::uint64_t user_ticks = 0;    ///< utime of /proc/PID/stat
  std::uint64_t system_ticks = 0;  ///< stime of /proc/PID/stat
};
[[nodiscard]] Usage usage_of(const std::vector<int>& pids);

/// Resident memory of processes in kB, by VmRSS of /proc/PID/status.
[[nodiscard]] std::uint64_t resident_kb(const std::vector<int>& pids);

}  // namespace driftgate::bench
