#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>

namespace driftgate::cli {

inline constexpr int kKillNow = SIGUSR1;  ///< told to a keeper: what it keeps is killed

/// The rest of a process that was forked to keep a program with everything that the program starts, also what
/// leaves its process group. `run` is executed in a child in a process group of its own and does not return.
/// All are asked to end (SIGTERM) once this process gets SIGTERM, once its parent `parent` is gone, and once
/// the program has ended; what is there 30 s later, or at kKillNow, is killed. Then this process ends as the
/// program did.
[[noreturn]] void keep(pid_t parent, const std::function<void(pid_t keeper)>& run);

}  // namespace driftgate::cli
