#pragma once

#include <cstdint>

namespace driftgate::bench {

struct EngineOptions {
  std::uint32_t events = 64;     ///< of a streamed answer, before its end
  std::uint32_t gap_us = 2'000;  ///< between two events; the first one goes with the head
  std::uint32_t threads = 1;     ///< each with its own listening socket
};

/// Stands for the engine behind the proxies: answers with constant bytes and computes nothing. Prints its
/// port, and returns when standard input ends, so that it never outlives the driver.
void run_engine(const EngineOptions& options);

}  // namespace driftgate::bench
