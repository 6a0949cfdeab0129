#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/ranks/collective.hpp"

namespace driftgate::gpu {

/// How long threads may take to end once one of them has failed.
inline constexpr std::chrono::milliseconds kRankGrace{5'000};

/// Ranks that are threads of this process: one collective for each.
[[nodiscard]] std::vector<std::unique_ptr<Collective>> make_thread_collectives(std::uint32_t ranks);

struct ThreadRanksResult {
  schema::Result<void> result;  ///< the failure that came first
  /// Threads that had not ended within the grace after it. They still run `work`: what it refers to must live
  /// on, and a process that wants to end has to end them with it (_exit).
  std::uint32_t abandoned = 0;
};

/// Runs `work` once for each rank, each in a thread, and waits for all of them. A rank that fails or throws
/// leaves its collective, so that the others end; those that do not end within `grace` are left behind.
[[nodiscard]] ThreadRanksResult run_in_threads(std::uint32_t ranks,
                                               std::function<schema::Result<void>(Collective&)> work,
                                               std::chrono::milliseconds grace = kRankGrace);

}  // namespace driftgate::gpu
