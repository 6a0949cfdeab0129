#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::jobs {

/// A short program that the daemon itself runs beside its other children (program.hpp is for workers, which
/// have no others).
struct Command {
  std::vector<std::string> argv;         ///< argv[0] is an absolute path
  std::vector<std::string> environment;  ///< all of it: "NAME=value"
  std::chrono::milliseconds limit{30'000};
  std::size_t output_bytes = std::size_t{64} << 20;  ///< of each of the two outputs
  int stop_fd = -1;  ///< when it becomes readable the program is killed; -1: none
};

struct CommandEnd {
  int exit_code = -1;  ///< -1 when a signal ended it
  std::string out, err;
};

/// Runs the program in a process group of its own, with nothing to read and only the standard descriptors,
/// and waits for its end. `not_found` when it cannot be started, `deadline_exceeded` past its limit,
/// `limit_exceeded` when it writes more than it may, `unavailable` when `stop_fd` ended it.
[[nodiscard]] schema::Result<CommandEnd> run_command(const Command& command);

}  // namespace driftgate::jobs
