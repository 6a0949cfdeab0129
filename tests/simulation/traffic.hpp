#pragma once

#include <cstdint>
#include <vector>

#include "stages/statistics/random.hpp"

namespace driftgate::simulation {

/// Requests of a canary: a ramp over sticky keys.
struct TrafficPlan {
  std::uint64_t requests = 100'000;
  std::vector<double> shares{0.01, 0.05, 0.25, 0.50};  ///< equally long steps
  double base_rate = 0.01;                             ///< mean failure rate of the incumbent
  double ratio = 1;                                    ///< the candidate's, as a multiple of it
  bool heavy_keys = false;                             ///< a few keys send most requests
  bool clustered = false;                              ///< one key in twenty fails ten times as often
  bool daily = false;                                  ///< rates and load rise and fall by half, three times
  bool late = false;  ///< the incumbent's failures are seen 2,000 requests late
};

struct Request {
  std::uint64_t number = 0;  ///< in routing order
  std::uint64_t key = 0;
  bool candidate = false;
  double share = 0;  ///< configured when it was routed
  bool failed = false;
  std::uint64_t seen_at = 0;  ///< request number at which its outcome is known
};

/// All requests of one run, in routing order.
[[nodiscard]] std::vector<Request> traffic(const TrafficPlan& plan, std::uint64_t seed);

}  // namespace driftgate::simulation
