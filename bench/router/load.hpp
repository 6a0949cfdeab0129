#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/router/wire.hpp"

namespace driftgate::bench {

struct LoadOptions {
  std::uint16_t port = 0;  ///< on 127.0.0.1, of a proxy or of the engine itself
  Shape shape = Shape::small;
  std::uint32_t connections = 1;
  double rate =
      0;  ///< requests a second whatever the answers take; 0: each connection asks when it was answered
  double warm_up_s = 0.3;
  double seconds = 1.5;       ///< that are measured
  std::uint32_t events = 64;  ///< that a streamed answer must have
  std::vector<int> pids;      ///< processes whose processor time is told
};

/// Sends requests and reads their answers; one JSON object about the measured time. An answer that is not as
/// it must be counts as an error, and its connection is opened anew.
[[nodiscard]] std::string run_load(const LoadOptions& options);

struct IdleOptions {
  std::uint16_t port = 0;
  std::uint32_t connections = 10'000;
  std::vector<int> pids;  ///< processes whose resident memory is told
};

/// Opens connections and leaves them idle, at first without a request, then after one request on each; one
/// JSON object with the memory before and after.
[[nodiscard]] std::string run_idle(const IdleOptions& options);

}  // namespace driftgate::bench
