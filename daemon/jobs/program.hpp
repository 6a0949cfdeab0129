#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/jobs/job.hpp"
#include "schema/error.hpp"

namespace driftgate::jobs {

/// A program of somebody else, run under limits (docs/design/evidence.md, "Limits on what comes in").
struct Program {
  std::vector<std::string> argv;  ///< argv[0] is an absolute path
  std::string working_folder;
  JobLimits limits;
  std::function<void(int group)> on_start;  ///< called with the process group once it runs; may be empty
  /// Called with what it prints, as it comes, up to limits.output_bytes; may be empty.
  std::function<void(std::string_view)> on_output{};
};

struct ProgramEnd {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;
  bool output_cut = false;
  std::string output;  ///< stdout and stderr together, at most limits.output_bytes
};

/// Runs the program with a cleared environment (PATH, LANG=C.UTF-8; of a job of Slurm also its number and
/// which GPUs it may use), its own process group, the limits, stdin closed; waits for its end, then kills and
/// reaps its whole group and all that it left behind. `deadline_exceeded` when it ran past limits.wall_ms,
/// `not_found` when it cannot be started.
[[nodiscard]] schema::Result<ProgramEnd> run_program(const Program& program);

/// The environment of such a program, NAME=VALUE each.
[[nodiscard]] std::vector<std::string> environment_of_program();

/// Sets a limit of this process, soft and hard (of CPU time the hard one some seconds later); 0 leaves it as
/// it is. Async-signal-safe.
void set_limit(__rlimit_resource resource, std::uint64_t value);

}  // namespace driftgate::jobs
