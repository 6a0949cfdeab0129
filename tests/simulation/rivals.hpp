#pragma once

#include <cstdint>
#include <vector>

#include "tests/simulation/traffic.hpp"

namespace driftgate::simulation {

/// How a canary ended under some rule.
struct Ended {
  bool alarm = false;
  std::uint64_t exposed = 0;  ///< requests that the candidate served until then
};

/// driftgate's label e-process on the first failure of each key. `routing_order`: as specified; else in the
/// order in which outcomes are seen, which is the mistake that the watermark avoids.
[[nodiscard]] Ended by_labels(const std::vector<Request>& requests, double max_ratio, double alpha,
                              bool routing_order = true);

// What it replaces. Each looks after every 1,000 requests.

/// The candidate's failure rate is over 1.5 times the incumbent's, once both have 100 requests.
[[nodiscard]] Ended by_threshold(const std::vector<Request>& requests);
/// One-sided z-test of two proportions over all requests so far.
[[nodiscard]] Ended by_repeated_z(const std::vector<Request>& requests, double alpha);
/// One-sided Mann–Whitney test of the two arms' failure rates in windows of 1,000 requests, once there are
/// ten windows.
[[nodiscard]] Ended by_mann_whitney(const std::vector<Request>& requests, double alpha);

}  // namespace driftgate::simulation
