#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/ranks/collective.hpp"

namespace driftgate::gpu {

/// How long the threads may take to end once one of them has failed.
inline constexpr std::chrono::milliseconds kRankGrace{5'000};

/// Collectives for ranks that are threads of this process: one for each rank.
[[nodiscard]] std::vector<std::unique_ptr<Collective>> make_thread_collectives(std::uint32_t ranks);

struct ThreadRanksResult {
  schema::Result<void> result;  ///< the failure that came first
  /// The number of threads that had not ended within the grace period after the failure. They still run
  /// `work`, so that what it refers to must stay alive; the process can only end together with them (_exit).
  std::uint32_t abandoned = 0;
};

/// Runs `work` in one thread for each rank and waits for all of them. When the work of a rank fails or
/// throws, the rank leaves its collective, so that the others end too; threads that do not end within `grace`
/// are abandoned.
[[nodiscard]] ThreadRanksResult run_in_threads(std::uint32_t ranks,
                                               std::function<schema::Result<void>(Collective&)> work,
                                               std::chrono::milliseconds grace = kRankGrace);

}  // namespace driftgate::gpu
